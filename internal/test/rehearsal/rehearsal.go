// Package rehearsal makes a release that only this machine has, for tests that install it as a stranger does,
// who has neither the clone nor its workspace.
package rehearsal

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const repository = "https://github.com/idemsk/idemsk"

// Release is the version that the changelog begins with, tagged in a clone.
type Release struct {
	Clone   string
	Version string
	Said    string // by the script that made the tags
}

// Make makes the tags of the last commit in a clone without tags. The clone's branch main is one commit further.
func Make(t *testing.T, root string) *Release {
	t.Helper()
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md")) //nolint:gosec // a test names its clone
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(`(?m)^## (v\S+)$`).FindSubmatch(changelog)
	if heading == nil {
		t.Fatal("CHANGELOG.md has no heading of a version")
	}
	root, err = filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	r := &Release{Clone: t.TempDir(), Version: string(heading[1])}
	r.Run(t, "git", "clone", "-q", "--no-tags", root, ".")
	r.Run(t, "git", "checkout", "-q", "-B", "main")
	r.Said = r.Run(t, "scripts/release-tag.sh", r.Version)
	return r
}

// Run runs a command in the clone, and returns its output.
func (r *Release) Run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...) //nolint:gosec // a test names the command
	cmd.Dir = r.Clone
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Environment returns the environment of a stranger's go command. It finds the clone's tags in the place of
// the repository, and has a module cache of its own, because a rehearsed version must not enter the ordinary
// one. What go install writes into its GOPATH is in PATH.
func (r *Release) Environment(t *testing.T) []string {
	t.Helper()
	goenv := func(name string) string { return r.Run(t, "go", "env", name) }
	goproxy := "file://" + filepath.ToSlash(filepath.Join(goenv("GOMODCACHE"), "cache", "download")) + "," +
		goenv("GOPROXY")
	gopath := t.TempDir()
	// -trimpath: what one module cache compiled need not be compiled for the next one.
	return append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
		"GOPATH="+gopath, "GOBIN=", "GOMODCACHE="+filepath.Join(gopath, "pkg", "mod"), "GOPROXY="+goproxy,
		"GOSUMDB=off", "GONOPROXY=github.com/idemsk/idemsk",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+r.Clone+".insteadOf",
		"GIT_CONFIG_VALUE_0="+repository,
		"PATH="+filepath.Join(gopath, "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
}
