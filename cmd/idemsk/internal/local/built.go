package local

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/internal/text/words"
)

// FindFunction finds the built example function, next to the tool or in the working directory. store is
// "postgres", "redis", or "" for DynamoDB.
func FindFunction(store string) (string, error) {
	return find("function", filepath.Join("dist", builtName("handler", runtime.GOOS, runtime.GOARCH, store),
		"bootstrap"), store)
}

// FindConsumer finds the built consumer process of the example, which has all stores, as FindFunction finds
// the function.
func FindConsumer() (string, error) {
	return find("consumer process", filepath.Join("dist",
		builtName("ledger-consumer", runtime.GOOS, runtime.GOARCH, "")), "")
}

// examplePackage is the package of the example function. Those for the other stores, and the consumer
// process, are below it.
const examplePackage = "github.com/idemsk/idemsk/lambda/handler"

// IsExample reports whether the function is the example: it is the default one, or its program was built from
// the example's package.
func (o *Options) IsExample() bool {
	if o.Example {
		return true
	}
	command, err := words.Split(o.Function)
	if err != nil {
		return false
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return false
	}
	built, err := buildinfo.ReadFile(program)
	return err == nil && strings.HasPrefix(built.Path+"/", examplePackage+"/")
}

// find finds a built program in dist. The build for DynamoDB may also be in the folder of the tool.
func find(what, built, store string) (string, error) {
	places := []string{built}
	if tool, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(tool); err == nil {
			tool = resolved
		}
		dir := filepath.Dir(tool)
		places = []string{filepath.Join(filepath.Dir(dir), built), filepath.Join(dir, built)}
		if store == "" {
			places = append(places, filepath.Join(dir, filepath.Base(built)))
		}
		places = append(places, built)
	}
	for _, place := range places {
		if info, err := os.Stat(place); err == nil && !info.IsDir() {
			return place, nil
		}
	}
	return "", fmt.Errorf("the %s is not built (looked for %s): name a program with --function, or run make build in a clone", what, strings.Join(places, ", "))
}

// builtName returns the name of a build in dist, as scripts/build.sh names it. The build for Linux is the one
// that is deployed.
func builtName(kind, system, arch, store string) string {
	parts := []string{kind, system, arch, store}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "linux" }), "-")
}
