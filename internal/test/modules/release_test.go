//go:build rest

package modules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/internal/test/rehearsal"
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

// A release can be required by a stranger, who has neither the clone nor its workspace: each module by its
// version, without a replace. The commands of docs/quickstart.md install the tool in the same way.
func TestReleaseCanBeInstalled(t *testing.T) {
	release := rehearsal.Make(t, "../../..")
	checkRelease(t, release)
	environment := release.Environment(t)
	for module, program := range strangers {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		command(t, folder, environment, "mod", "init", "example.com/payments")
		command(t, folder, environment, "get", "github.com/idemsk/idemsk"+module+"@"+release.Version)
		command(t, folder, environment, "mod", "tidy", "-e") // the modules of tests may be missing here
		command(t, folder, environment, "build", "-o", filepath.Join(folder, "stranger"), ".")
	}
}

// checkRelease: both the release and the commit behind it are complete, and no release is made twice.
func checkRelease(t *testing.T, release *rehearsal.Release) {
	t.Helper()
	run := func(name string, args ...string) string { t.Helper(); return release.Run(t, name, args...) }
	for _, tag := range strings.Fields(run("git", "tag")) {
		if !strings.Contains(release.Said, " "+tag) || run("git", "rev-parse", tag+"^{commit}") != run("git",
			"rev-parse", "main~1") {
			t.Errorf("the tag %s is not pushed, or not on the branch: %s", tag, release.Said)
		}
	}
	if changed := run("git", "diff", "main~2", "main", "--", ".", ":!*go.mod"); changed != "" {
		t.Errorf("the release leaves more than requirements:\n%s", changed)
	}
	repeated := exec.CommandContext(t.Context(), "scripts/release-tag.sh", release.Version)
	repeated.Dir = release.Clone
	if out, err := repeated.CombinedOutput(); err == nil || !strings.Contains(string(out),
		release.Version+" exists") {
		t.Errorf("a second release of %s: %s, %v; want it refused", release.Version, out, err)
	}
	for _, commit := range []string{release.Version, "main"} {
		run("git", "checkout", "-q", commit)
		run("go", "list", "-mod=readonly", "work")
	}
}
