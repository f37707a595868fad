//go:build rest

package modules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// strangers are programs of modules that require one of ours, by the module.
var strangers = map[string]string{
	"": handler,
	"/schema": `package main

import (
	"context"

	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/schema"
	"github.com/idemsk/idemsk/schema/jsonschema"
)

func main() {
	decoder, _ := schema.New(schema.Config{Formats: []schema.Format{jsonschema.Format{}}})
	lambda.Start(schema.Handler(decoder, func(context.Context, struct{}, msk.Record) (string, error) {
		return "", nil
	}))
}
`,
	"/telemetry": `package main

import "github.com/idemsk/idemsk/telemetry"

func main() { _, _ = telemetry.New(telemetry.Config{}) }
`,
	"/infra/cdk": `package main

import "github.com/idemsk/idemsk/infra/cdk/consumer"

func main() { _ = consumer.Props{} }
`,
}

// A release can be installed by a stranger, who has neither the clone nor its workspace: each module can be
// required by its version, without a replace, and the tool can be installed. The tags are made in a clone of
// the last commit, which the go command finds in the place of the repository.
func TestReleaseCanBeInstalled(t *testing.T) {
	clone, version := release(t)
	goproxy := "file://" + filepath.ToSlash(filepath.Join(command(t, ".", nil, "env", "GOMODCACHE"), "cache",
		"download")) + "," + command(t, ".", nil, "env", "GOPROXY")
	bin := t.TempDir()
	// -trimpath: what one module cache compiled need not be compiled for the next one.
	environment := append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
		"GOBIN="+bin, "GOMODCACHE="+t.TempDir(), "GOPROXY="+goproxy, "GOSUMDB=off",
		"GONOPROXY=github.com/idemsk/idemsk",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+clone+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/idemsk/idemsk")
	for module, program := range strangers {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, folder, environment, "mod", "init", "example.com/payments")
		command(t, folder, environment, "get", "github.com/idemsk/idemsk"+module+"@"+version)
		command(t, folder, environment, "mod", "tidy", "-e") // the modules of tests may be missing here
		command(t, folder, environment, "build", "-o", filepath.Join(bin, "stranger"), ".")
	}
	command(t, t.TempDir(), environment, "install", "github.com/idemsk/idemsk/cmd/idemsk@"+version)
	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "idemsk"), "version").CombinedOutput()
	if want := "idemsk " + version + "\n"; err != nil || string(out) != want {
		t.Errorf("idemsk version: %s, %v; want %s", out, err, want)
	}
}

// release makes the tags of the version that the changelog begins with, in a clone without tags. The clone's
// branch is one commit further, and both that commit and the release are complete.
func release(t *testing.T) (clone, version string) {
	t.Helper()
	changelog, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(`(?m)^## (v\S+)$`).FindSubmatch(changelog)
	if heading == nil {
		t.Fatal("CHANGELOG.md has no heading of a version")
	}
	clone, version = t.TempDir(), string(heading[1])
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = clone
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out))
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	run("git", "clone", "-q", "--no-tags", root, ".")
	run("git", "checkout", "-q", "-B", "main")
	said := run("scripts/release-tag.sh", version)
	for _, tag := range strings.Fields(run("git", "tag")) {
		if !strings.Contains(said, " "+tag) || run("git", "rev-parse", tag+"^{commit}") != run("git",
			"rev-parse", "main~1") {
			t.Errorf("the tag %s is not pushed, or not on the branch: %s", tag, said)
		}
	}
	if changed := run("git", "diff", "main~2", "main", "--", ".", ":!*go.mod"); changed != "" {
		t.Errorf("the release leaves more than requirements:\n%s", changed)
	}
	repeated := exec.CommandContext(t.Context(), "scripts/release-tag.sh", version)
	repeated.Dir = clone
	if out, err := repeated.CombinedOutput(); err == nil || !strings.Contains(string(out), version+" exists") {
		t.Errorf("a second release of %s: %s, %v; want it refused", version, out, err)
	}
	for _, commit := range []string{version, "main"} {
		run("git", "checkout", "-q", commit)
		run("go", "list", "-mod=readonly", "work")
	}
	return clone, version
}
