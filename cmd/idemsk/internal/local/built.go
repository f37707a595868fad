package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// FindFunction looks for the built handler around the tool, and then in the working directory. Its error says what to do. store
// is "postgres" or "redis" for the build with that store; "" is the usual one.
func FindFunction(store string) (string, error) {
	built := filepath.Join("dist", builtName("handler", runtime.GOOS, runtime.GOARCH, store), "bootstrap")
	beside := ""
	if store == "" {
		beside = "bootstrap"
	}
	return find("function", built, beside)
}

// FindConsumer looks for the built consumer process as FindFunction does. It has the built-in stores only.
func FindConsumer(store string) (string, error) {
	if store != "" {
		return "", fmt.Errorf("the example's consumer process has no client of %s: build your own with package pgapp or redisapp, and name it with --function", store)
	}
	name := builtName("ledger-consumer", runtime.GOOS, runtime.GOARCH, "")
	return find("consumer process", filepath.Join("dist", name), name)
}

// find looks for a built program, and beside the tool under another name if that is not "".
func find(what, built, besideTool string) (string, error) {
	places := []string{built}
	if tool, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(tool); err == nil {
			tool = resolved
		}
		dir := filepath.Dir(tool)
		places = []string{filepath.Join(filepath.Dir(dir), built), filepath.Join(dir, built)}
		if besideTool != "" {
			places = append(places, filepath.Join(dir, besideTool))
		}
		places = append(places, built)
	}
	for _, place := range places {
		if info, err := os.Stat(place); err == nil && !info.IsDir() {
			return place, nil
		}
	}
	return "", fmt.Errorf("the %s is not built (looked for %s): run make build, or name it with --function", what, strings.Join(places, ", "))
}

// builtName is the name in dist of a program for a machine, as scripts/build.sh names it. On Linux it is the one that is deployed.
func builtName(program, system, arch, store string) string {
	parts := []string{program, system, arch, store}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "linux" }), "-")
}
