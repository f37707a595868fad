package local

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// FindFunction finds the built example function, next to the tool or in the working directory. store is "postgres", "redis", or
// "" for DynamoDB.
func FindFunction(store string) (string, error) {
	return find("handler", "bootstrap", store, "the function is not built (looked for %s): run make build, or name it with --function")
}

// FindLayer finds the wrapper script of the built layer as FindFunction finds the function.
func FindLayer(store string) (string, error) {
	return find("layer", "idemsk", store, "the layer is not built (looked for %s): run scripts/build.sh run")
}

func find(kind, file, store, missing string) (string, error) {
	built := filepath.Join("dist", builtName(kind, runtime.GOOS, runtime.GOARCH, store), file)
	places := []string{built}
	if tool, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(tool); err == nil {
			tool = resolved
		}
		dir := filepath.Dir(tool)
		places = []string{filepath.Join(filepath.Dir(dir), built), filepath.Join(dir, built)}
		if store == "" {
			places = append(places, filepath.Join(dir, file))
		}
		places = append(places, built)
	}
	for _, place := range places {
		if info, err := os.Stat(place); err == nil && !info.IsDir() {
			return place, nil
		}
	}
	return "", fmt.Errorf(missing, strings.Join(places, ", "))
}

// builtName returns the folder of a build in dist, as scripts/build.sh names it. The build for Linux is the one that is deployed.
func builtName(kind, system, arch, store string) string {
	parts := []string{kind, system, arch, store}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" || p == "linux" }), "-")
}
