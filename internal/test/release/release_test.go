//go:build rest

package release_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const version = "v0.0.0-test"

// A release that is built twice, in two clones, has the same bytes. Its checksums and its statement name each
// file, its archive has the tool, each bill of materials has the licence of each component, and its script
// publishes the layers.
func TestReleaseIsReproducible(t *testing.T) {
	commit := strings.TrimSpace(run(t, ".", "git", "rev-parse", "HEAD"))
	first, again := build(t, commit), build(t, commit)
	sums, err := os.ReadFile(filepath.Join(first, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(again, "SHA256SUMS"))
	if err != nil || string(sums) != string(other) {
		t.Errorf("%v; two builds differ:\n%s\n%s", err, sums, other)
	}
	listed := make(map[string]string)
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	checkSums(t, first, listed)
	checkDocument(t, listed)
	checkStatement(t, first, listed)
	checkMaterials(t, first)
	run(t, first, "tar", "-xzf", "idemsk_"+version+"_linux_amd64.tar.gz")
	if got := run(t, first, "./idemsk", "version"); got != "idemsk "+version+"\n" {
		t.Errorf("the tool's version is %q", got)
	}
	checkPublishing(t, first)
}

// build builds a release in a new clone, and returns its folder.
func build(t *testing.T, commit string) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	clone := t.TempDir()
	run(t, clone, "git", "clone", "-q", root, ".")
	run(t, clone, "git", "checkout", "-q", commit)
	// The tools are installed once.
	tools := filepath.Join(root, ".cache", "bin")
	if err := os.MkdirAll(tools, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(clone, ".cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tools, filepath.Join(clone, ".cache", "bin")); err != nil {
		t.Fatal(err)
	}
	run(t, clone, "env", "ARCHS=amd64", "SYSTEMS=linux", "REGISTRY_PORT="+freePort(t), "scripts/release.sh",
		version)
	return filepath.Join(clone, "dist", "release")
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func checkSums(t *testing.T, folder string, listed map[string]string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != len(listed)+2 { // the checksums and the statement
		t.Fatalf("%v; %d files, of which %d have a checksum", err, len(files), len(listed))
	}
	for name, want := range listed {
		content, err := os.ReadFile(filepath.Join(folder, name))
		sum := sha256.Sum256(content)
		if err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: %v, %x; want %s", name, err, sum, want)
		}
	}
}

// checkDocument compares the files with the table of docs/install.md. The release of this test has one
// architecture and one system.
func checkDocument(t *testing.T, listed map[string]string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`[^` ]+`")
	plain := strings.NewReplacer("`", "", "VERSION.", strings.TrimPrefix(version, "v")+".", "_VERSION_", "_"+version+"_")
	patterns := make(map[string]bool) // of file names: whether one was found
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 4 {
			for _, name := range named.FindAllString(cells[1], -1) {
				patterns[plain.Replace(name)] = false
			}
		}
	}
	for name := range listed {
		found := false
		for pattern := range patterns {
			for _, arch := range []string{"amd64", "x86_64"} {
				if ok, err := path.Match(strings.Replace(pattern, "ARCH", arch, 1), name); ok && err == nil {
					patterns[pattern], found = true, true
				}
			}
		}
		if !found && name != "SHA256SUMS" {
			t.Errorf("%s is in the release and not in docs/install.md", name)
		}
	}
	for pattern, found := range patterns {
		if !found && !strings.Contains(pattern, "darwin") && pattern != "provenance.intoto.json" {
			t.Errorf("%s is in docs/install.md and not in the release", pattern)
		}
	}
}

func checkStatement(t *testing.T, folder string, listed map[string]string) {
	t.Helper()
	var statement struct {
		Subject []struct {
			Name   string
			Digest struct{ SHA256 string }
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct{ Digest struct{ GitCommit string } }
			}
		}
	}
	read(t, filepath.Join(folder, "provenance.intoto.json"), &statement)
	if len(statement.Subject) != len(listed) {
		t.Errorf("the statement has %d subjects, want %d", len(statement.Subject), len(listed))
	}
	for _, s := range statement.Subject {
		if listed[s.Name] != s.Digest.SHA256 {
			t.Errorf("the statement has another digest of %q: %s", s.Name, s.Digest.SHA256)
		}
	}
	commit := strings.TrimSpace(run(t, folder, "git", "rev-parse", "HEAD"))
	if got := statement.Predicate.BuildDefinition.ResolvedDependencies[0].Digest.GitCommit; got != commit {
		t.Errorf("the statement names the commit %s, want %s", got, commit)
	}
}

func checkMaterials(t *testing.T, folder string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.cdx.json"))
	if err != nil || len(paths) != 6 {
		t.Errorf("%v; %d bills of materials, want one for each program", err, len(paths))
	}
	for _, path := range paths {
		var bill struct {
			Components []struct {
				Name, Version string
				Licenses      []any
				Evidence      struct{ Licenses []any }
			}
		}
		if read(t, path, &bill); len(bill.Components) == 0 {
			t.Errorf("%s is empty", path)
		}
		for _, c := range bill.Components {
			if len(c.Licenses)+len(c.Evidence.Licenses) == 0 || strings.Contains(c.Version, "devel") {
				t.Errorf("%s: %s has the version %q, and the licences %v", path, c.Name, c.Version,
					c.Evidence.Licenses)
			}
		}
	}
}

// checkPublishing runs the script with a CLI that prints the file that it would upload.
func checkPublishing(t *testing.T, folder string) {
	t.Helper()
	const aws = "#!/bin/sh\nfor a in \"$@\"; do\n" +
		"case $a in fileb://*) test -s \"${a#fileb://}\" && echo \"$a\";; esac; done\n"
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(aws), 0o700); err != nil {
		t.Fatal(err)
	}
	publish := func() string {
		t.Helper()
		return run(t, folder, "env", "PATH="+bin+":"+os.Getenv("PATH"), "./publish-layers.sh", "redis")
	}
	if got, want := publish(), "fileb://idemsk-layer-x86_64-redis.zip\n"; got != want { // this release has one architecture
		t.Errorf("published %q, want %q", got, want)
	}
	run(t, folder, "cp", "idemsk-layer-x86_64-redis.zip", "idemsk-layer-arm64-redis.zip")
	if got, want := publish(), "fileb://idemsk-layer-arm64-redis.zip\nfileb://idemsk-layer-x86_64-redis.zip\n"; got != want {
		t.Errorf("published %q, want %q", got, want)
	}
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// run runs a program and returns its output.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output wraps nothing
			said = exit.Stderr
		}
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
	}
	return string(out)
}
