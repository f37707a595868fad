package replay

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/internal/runtimeapi"
)

// FindFunction looks for the built handler around the tool, and then in the working directory. Its error says what to do. store
// is "postgres" or "redis" for the build with that store; "" is the usual one.
func FindFunction(store string) (string, error) {
	built := filepath.Join("dist", builtName(runtime.GOOS, runtime.GOARCH, store), "bootstrap")
	places := []string{built}
	if tool, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(tool); err == nil {
			tool = resolved
		}
		dir := filepath.Dir(tool)
		places = []string{filepath.Join(filepath.Dir(dir), built), filepath.Join(dir, built)}
		if store == "" {
			places = append(places, filepath.Join(dir, "bootstrap"))
		}
		places = append(places, built)
	}
	for _, place := range places {
		if info, err := os.Stat(place); err == nil && !info.IsDir() {
			return place, nil
		}
	}
	return "", fmt.Errorf("the function is not built (looked for %s): run make build, or name it with --function", strings.Join(places, ", "))
}

// builtName is the folder in dist of the function for a machine, as scripts/build.sh names it. On Linux it is the one that is deployed.
func builtName(system, arch, store string) string {
	parts := []string{"handler", system, arch, store}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "linux" }), "-")
}

// functionName is the function's, and the namespace of its keys.
const functionName = "idemsk-replay"

// variables are those of env as NAME=VALUE.
func variables(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}

// startFunction starts the function for a pass. Each line that it prints goes to the log, and to metrics.
func startFunction(ctx context.Context, o *Options, env map[string]string, metrics func(line []byte)) (*runtimeapi.Function, error) {
	log := func(line []byte) { _, _ = o.Log.Write(append(line[:len(line):len(line)], '\n')) } // a log is not worth the run
	return runtimeapi.Start(ctx, runtimeapi.Config{
		Command: []string{o.Function},
		Env:     variables(env),
		Name:    functionName,
		Region:  region,
		Timeout: o.Timeout,
		Stdout:  func(line []byte) { metrics(line); log(line) },
		Stderr:  log,
	})
}
