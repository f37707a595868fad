package release_test

import (
	"testing"

	"github.com/idemsk/idemsk/cmd/internal/release"
)

// The version is the one that the build has set. A test's build sets none.
func TestVersion(t *testing.T) {
	t.Parallel()
	if got := release.Version("v1.2.3"); got != "v1.2.3" {
		t.Errorf("got %q", got)
	}
	if got := release.Version(""); got == "" {
		t.Error("a build without a version has an empty one")
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
		if got := release.Guide(version); got != "https://github.com/idemsk/idemsk/tree/"+want+"/docs" {
			t.Errorf("the guide of %s is %s", version, got)
		}
	}
}
