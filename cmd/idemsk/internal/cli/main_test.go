package cli_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/testkit"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
)

// handler is the real function, built for these tests.
var handler string //nolint:gochecknoglobals // set once, before any test

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "idemsk-cli-test-")
	if err == nil {
		handler = filepath.Join(dir, "bootstrap")
		err = build(handler)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the function can't be built for the tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if code == 0 {
		// The SDK keeps the connections of the clients that the tool makes, until they have been idle for a while.
		idle := []goleak.Option{
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		}
		if err := goleak.Find(idle...); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func build(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", path, "github.com/idemsk/idemsk/lambda/handler").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// result is what a run of the tool gave.
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

// output is a buffer that several can write to at the same time, as they can to a file.
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

// scrub replaces what differs from run to run.
func scrub(text string) string {
	for pattern, with := range map[string]string{
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}`: "2026-01-02 03:04:05.678",
		`http://127\.0\.0\.1:\d+`:               "http://127.0.0.1:1",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

// newDynamoDB is an in-process DynamoDB with a table of keys.
func newDynamoDB(t *testing.T) (endpoint string, client *dynamodb.Client) {
	t.Helper()
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	client = dynamodb.NewFromConfig(awstest.Config(t, db.URL()))
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	return db.URL(), client
}
