package cli_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

// runAll runs the tests in a temporary folder: the tool keeps files there beyond its run.
func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "idemsk-cli-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = errors.Join(os.Setenv("TMPDIR", dir), os.Chmod(dir, 0o711)) // a PostgreSQL that root starts is another user's
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return handlertest.Main(m, &handler, handlertest.IdleConnections()...)
}

// result is the result of a run of the tool.
type result struct {
	code     int
	out, err string
}

func idemsk(t *testing.T, args ...string) result {
	t.Helper()
	var out, err output
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	code := cli.Main(ctx, args, cli.Streams{In: strings.NewReader("y\n"), Out: &out, Err: &err}, "v1.2.3")
	return result{code: code, out: out.String(), err: err.String()}
}

// output is a buffer for concurrent writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("not as in %s (go test ./cmd/... -update writes it anew):\n%s", path, text)
	}
}

// scrub replaces text that differs between runs.
func scrub(text string) string {
	for pattern, with := range map[string]string{
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`: "2026-01-02 03:04:05.678",
		`http://127\.0\.0\.1:\d+`:               "http://127.0.0.1:1",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

// newDynamoDB starts an in-process DynamoDB with a table of keys.
func newDynamoDB(t *testing.T) (endpoint string, client *dynamodb.Client) {
	t.Helper()
	endpoint, client = startDynamoDB(t)
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	return endpoint, client
}

// startDynamoDB starts an in-process DynamoDB.
func startDynamoDB(t *testing.T) (endpoint string, client *dynamodb.Client) {
	t.Helper()
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	client = dynamodb.NewFromConfig(awstest.Config(t, db.URL()))
	return db.URL(), client
}
