package modules_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// others are the modules of clients that a function on DynamoDB does not need.
var others = regexp.MustCompile(`github\.com/(jackc|redis|twmb|bufbuild|aws/aws-sdk-go-v2/service/(lambda|glue))/`)

// handler is the minimal function of the README.
const handler = `package main

import (
	"context"

	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/lambda/msk"
)

func main() {
	lambda.Start(msk.JSON(func(context.Context, struct{}, msk.Record) (string, error) { return "", nil }))
}
`

// A module that imports the library for a function on DynamoDB downloads no client of PostgreSQL, Redis,
// Kafka or Lambda: not for go get, not for go build, and not for go mod tidy, which also reads the tests of
// imported packages.
func TestFunctionOnDynamoDBDownloadsNoOtherClient(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder, downloads := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(handler), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+downloads,
		"GOSUMDB=off",
		"GOPROXY=file://"+filepath.ToSlash(
			filepath.Join(command(t, root, nil, "env", "GOMODCACHE"), "cache", "download")))
	for _, args := range [][]string{
		{"mod", "init", "example.com/payments"},
		{"mod", "edit", "-replace", "github.com/idemsk/idemsk=" + root},
		{"get", "github.com/idemsk/idemsk/app/lambda", "github.com/idemsk/idemsk/lambda/msk"},
		{"list", "-deps", "."},
		// continues without the modules of tests, which may be missing from the local cache
		{"mod", "tidy", "-e"},
	} {
		if out := command(t, folder, environment, args...); others.MatchString(out) {
			t.Errorf("go %s:\n%s", strings.Join(args, " "), out)
		}
	}
	for _, path := range downloaded(t, downloads) {
		if others.MatchString(path) {
			t.Errorf("%s was downloaded", path)
		}
	}
	sums, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil || others.Match(sums) {
		t.Errorf("%v; go.sum:\n%s", err, sums)
	}
}

// downloaded returns the files below a module cache. It fails if there are none.
func downloaded(t *testing.T, cache string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(cache, "cache", "download"),
		func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				paths = append(paths, filepath.ToSlash(path))
			}
			return err
		})
	if err != nil || !strings.Contains(strings.Join(paths, "\n"),
		"github.com/aws/aws-sdk-go-v2/service/dynamodb/@v/") {
		t.Fatalf("%v; the client of DynamoDB is not among the downloads %q", err, paths)
	}
	return paths
}

// Each module resolves by its own go.mod, as for an importer, and not only in the workspace. All modules
// require the same version of a common dependency. Otherwise the workspace would test the highest version
// only.
func TestEveryModuleIsCompleteAndRequiresTheSameVersions(t *testing.T) {
	versions := make(map[string]string) // by module, with the module that requires it
	for _, dir := range strings.Fields(command(t, ".", nil, "list", "-m", "-f", "{{.Dir}}")) {
		command(t, dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly"), "list", "-deps", "-test",
			"-tags", "localstack,docs", "./...")
		var mod struct {
			Require []struct{ Path, Version string }
		}
		if err := json.Unmarshal([]byte(command(t, dir, nil, "mod", "edit", "-json")), &mod); err != nil {
			t.Fatal(err)
		}
		for _, r := range mod.Require {
			if v, some := versions[r.Path]; some && v != r.Version {
				t.Errorf("%s requires %s %s, and another module %s", dir, r.Path, r.Version, v)
			}
			versions[r.Path] = r.Version
		}
	}
	if len(versions) == 0 {
		t.Error("no module requires anything")
	}
}

// command runs the go command and returns its output.
func command(t *testing.T, dir string, environment []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = dir, environment
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in %s: go %s: %v\n%s", dir, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
