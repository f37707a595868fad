package release

import (
	"runtime/debug"
	"testing"
)

// The version is the one that the build has set, or that of the module, or unknown.
func TestVersion(t *testing.T) {
	t.Parallel()
	module := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.4"}}
	for _, tc := range []struct {
		set  string
		info *debug.BuildInfo
		want string
	}{
		{"v1.2.3", module, "v1.2.3"}, {"", module, "v1.2.4"}, {"", new(debug.BuildInfo), "unknown"}, {"", nil, "unknown"},
	} {
		if got := versionOf(tc.set, tc.info); got != tc.want {
			t.Errorf("%q, %+v: %s, want %s", tc.set, tc.info, got, tc.want)
		}
	}
	if got := Version("v1.2.3"); got != "v1.2.3" {
		t.Errorf("got %s", got)
	}
}

// The guide is that of the release, or of the default branch if the version is no release.
func TestGuide(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.3":                             "v1.2.3",
		"v1.2.3-4-gabcdef0":                  "HEAD",
		"v0.0.0-20261127000000-0123456789ab": "HEAD",
		"(devel)":                            "HEAD",
		"unknown":                            "HEAD",
	} {
		if got := Guide(version); got != "https://github.com/idemsk/idemsk/tree/"+want+"/docs" {
			t.Errorf("the guide of %s is %s", version, got)
		}
	}
}
