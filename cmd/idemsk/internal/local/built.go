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
