// Package release knows the version of a program, and where the documents of that version are.
package release

import (
	"cmp"
	"regexp"
	"runtime/debug"
)

// Version returns the version that the build has set or, if it has set none, that of the module, which go install
// knows.
func Version(set string) string {
	module := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		module = info.Main.Version
	}
	return cmp.Or(set, module, "unknown")
}

// Guide returns the URL of the guide of a version. A build between two releases has that of the default branch.
func Guide(version string) string {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) {
		version = "HEAD"
	}
	return "https://github.com/idemsk/idemsk/tree/" + version + "/docs"
}
