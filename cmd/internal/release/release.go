// Package release knows the version of a program, and where the documents of that version are.
package release

import (
	"regexp"
	"runtime/debug"
)

// Version returns the version that the build has set or, if it has set none, that of the module, which go install
// knows.
func Version(set string) string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(set, info)
}

// versionOf returns the version of a program with an information on its build, nil if there is none.
func versionOf(set string, info *debug.BuildInfo) string {
	switch {
	case set != "":
		return set
	case info != nil && info.Main.Version != "":
		return info.Main.Version
	}
	return "unknown"
}

// Guide returns the URL of the guide of a version. A build between two releases has that of the default branch.
func Guide(version string) string {
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(version) {
		version = "HEAD"
	}
	return "https://github.com/idemsk/idemsk/tree/" + version + "/docs"
}
