package reconcile_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
)

func TestReconcile(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	r := clitest.Run(t, "reconcile", "--endpoint-url", endpoint)
	if r.Code != 0 || r.Err != "" {
		t.Errorf("%+v; want exit 0", r)
	}
	clitest.Golden(t, "reconcile", clitest.Scrub(r.Out))

	path := clitest.File(t, "bookings.csv", "id\ndone\nghost\x1b\nflying\ndone\nsecret\n")
	r = clitest.Run(t, "reconcile", "--endpoint-url", endpoint, "--against", path, "--field", "id",
		"--namespace", "ledger", "--topic", "payments")
	if r.Code != 1 || r.Err != "" {
		t.Errorf("%+v; want exit 1, and nothing but the report", r)
	}
	clitest.Golden(t, "reconcile-against", strings.ReplaceAll(clitest.Scrub(r.Out), path, "bookings.csv"))

	path = clitest.File(t, "bookings.jsonl",
		`{"id":"ledger#payments#done"}`+"\n"+`{"id":"ledger#payments#secret"}`)
	r = clitest.Run(t, "reconcile", "--endpoint-url", endpoint, "--against", path, "--field", "id",
		"--from", "90m", "--json")
	var report struct {
		Overdue, Failed, OnlyInStore, OnlyInExport []any
		Matched                                    int
	}
	if err := json.Unmarshal([]byte(r.Out), &report); err != nil || r.Code != 0 || report.Matched != 2 ||
		report.OnlyInStore != nil || len(report.Overdue) != 1 {
		t.Errorf("%+v: %v", r, err)
	}
}

// newBucketAndKeys starts an in-process DynamoDB with the keys of fill, and an S3 at the same endpoint.
func newBucketAndKeys(t *testing.T) (endpoint string, s3 *s3test.Server) {
	t.Helper()
	db, s3 := testkit.Serve(t, dynamofake.New, dynamofake.Config{}), &s3test.Server{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Target") != "" {
			db.ServeHTTP(w, r)
			return
		}
		s3.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	client := dynamodb.NewFromConfig(awstest.Config(t, server.URL))
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	clitest.Fill(t, client)
	return server.URL, s3
}

func TestReconcileWithABucket(t *testing.T) {
	t.Parallel()
	endpoint, s3 := newBucketAndKeys(t)
	args := []string{"reconcile", "--endpoint-url", endpoint, "--against", "s3://exports/bookings/",
		"--field", "id", "--namespace", "ledger", "--topic", "payments",
		"--covers", "4h", "--lag", "1h", "--limit", "1", "--emf", "ledger"}
	if r := clitest.Run(t, args...); r.Code != 1 ||
		!strings.Contains(r.Err, "there is no export in s3://exports/bookings/") {
		t.Errorf("%+v; want exit 1, and that there is no export", r)
	}
	s3.PutAt("/exports/bookings/1.csv", []byte("id\nsecret\n"), time.Now().Add(-5*time.Hour))
	if r := clitest.Run(t, args...); r.Code != 1 ||
		!strings.Contains(r.Err, "bookings/1.csv was written 5h") {
		t.Errorf("%+v; want exit 1, and that the export is old", r)
	}
	s3.Put("/exports/bookings/2.csv", []byte("id\ndone\n"))
	r := clitest.Run(t, args...)
	if r.Code != 1 || !strings.Contains(r.Out,
		"1 row in s3://exports/bookings/2.csv: 1 completed, 0 not in the store, 0 not completed, 0 there "+
			"twice; 3 completed and not in the export.\n"+
			"Not all are listed: --limit 0 lists all.\n") {
		t.Errorf("%+v; want exit 1, and three keys that are not in the export", r)
	}
	_, line, _ := strings.Cut(r.Out, "lists all.\n")
	var metrics map[string]any
	if err := json.Unmarshal([]byte(line), &metrics); err != nil || metrics["FunctionName"] != "ledger" ||
		metrics["ExportDifferences"] != 3.0 || metrics["KeysOverdue"] != 1.0 {
		t.Errorf("the metrics are %s: %v", line, err)
	}
}

func TestReconcileAtAnInterval(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	for table, text := range map[string]string{dynamostore.DefaultTable: "8 records in the store: 1 hang, 1 " +
		"failed", "missing": "idemsk reconcile: dynamostore: list table missing"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out := &clitest.Endless{Text: text, Left: 3, End: cancel}
		args := []string{"reconcile", "--every", "10ms", "--endpoint-url", endpoint, "--table", table}
		if code := cli.Main(ctx, args, cli.Streams{Out: out, Err: out}, "v1"); code != 0 || out.Left > 0 {
			t.Errorf("exit %d, %d more wanted: %s", code, out.Left, out.String())
		}
		cancel()
	}
}

// The metrics of the last run that succeeded stay when one fails, and the failure is counted.
func TestReconcileServesMetrics(t *testing.T) {
	t.Parallel()
	endpoint, s3 := newBucketAndKeys(t)
	began := time.Now()
	r := reconcileServing(t, "--every", "10ms", "--endpoint-url", endpoint,
		"--against", "s3://exports/bookings/", "--field", "id",
		"--namespace", "ledger", "--topic", "payments", "--covers", "4h")
	r.after("there is no export", map[string]float64{"last_run_failed": 1,
		"last_success_timestamp_seconds": 0, "keys": 0})

	s3.PutAt("/exports/bookings/1.csv", []byte("id\ndone\nghost\n"), began)
	found := map[string]float64{"keys": 8, "keys_overdue": 1, "keys_failed": 1, "export_rows": 2,
		"export_matched": 1, "export_differences": 4, "last_run_failed": 0}
	metrics := r.after("2 rows in", found)
	if at := metrics["last_success_timestamp_seconds"]; at < float64(began.Unix()) ||
		metrics["duration_seconds"] <= 0 || metrics["keys_in_progress_age_seconds"] <= 0 {
		t.Errorf("%v; want a run after %s, its duration, and the age of a key", metrics, began)
	}
	if metrics["failures_total"] < 1 {
		t.Errorf("%v; want the failures before", metrics)
	}

	s3.PutAt("/exports/bookings/2.csv", []byte("no such column\n"), began.Add(time.Second))
	found["last_run_failed"] = 1
	if after := r.after("no column", found)["failures_total"]; after <= metrics["failures_total"] {
		t.Errorf("%v failures, %v before", after, metrics["failures_total"])
	}

	second := clitest.Run(t, "reconcile", "--every", "1h", "--endpoint-url", endpoint, "--http", r.addr)
	if second.Code != 1 || second.Out != "" ||
		!strings.Contains(second.Err, "--http: listen tcp "+r.addr+": bind: address already in use") {
		t.Errorf("%+v; want exit 1, and that the port is in use", second)
	}
}

// servedReconcile is a running idemsk reconcile --http. It waits with its next run until its output is read.
type servedReconcile struct {
	t      *testing.T
	addr   string
	output *io.PipeReader
}

// reconcileServing runs idemsk reconcile until the end of the test.
func reconcileServing(t *testing.T, flags ...string) *servedReconcile {
	t.Helper()
	read, write := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, append([]string{"reconcile", "--http", "127.0.0.1:0"}, flags...),
			cli.Streams{Out: write, Err: write}, "v1")
	}()
	t.Cleanup(func() {
		stop()
		_ = read.Close()
		if code := <-ended; code != 0 {
			t.Errorf("idemsk reconcile: exit %d", code)
		}
	})
	r := &servedReconcile{t: t, output: read}
	line := r.read()
	found := regexp.MustCompile(`^Metrics: http://(127\.0\.0\.1:\d+)/metrics\n$`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("%q; want the address of the metrics", line)
	}
	r.addr = found[1]
	return r
}

// read returns what the command writes at once.
func (r *servedReconcile) read() string {
	r.t.Helper()
	text := make([]byte, 1<<16)
	n, err := r.output.Read(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text[:n])
}

// after returns the metrics after an output with a text, and compares some of them.
func (r *servedReconcile) after(text string, want map[string]float64) (metrics map[string]float64) {
	r.t.Helper()
	for !strings.Contains(r.read(), text) {
	}
	metrics = r.scrape()
	for name, value := range want {
		if metrics[name] != value {
			r.t.Errorf("%s is %v; want %v", name, metrics[name], value)
		}
	}
	return metrics
}

// scrape returns the metrics by their names after idemsk_reconcile_.
func (r *servedReconcile) scrape() map[string]float64 {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.addr+"/metrics", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	values := make(map[string]float64)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "idemsk_reconcile_"), " "); ok &&
			name != "#" {
			if values[name], err = strconv.ParseFloat(value, 64); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	return values
}

func TestReconcileFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"x"}, {"--limit", "-1"}, {"--every", "-1s"}, {"--covers", "1h"},
		{"--against", "a.csv", "--lag", "1h"},
		{"--http", "127.0.0.1:0"}, {"--against", "a.csv", "--covers", "1h", "--lag", "1h"},
		{"--against", "a.csv", "--covers", "2h", "--from", "1h"}, {"--topic", "payments"},
	} {
		if r := clitest.Run(t, append([]string{"reconcile"}, args...)...); r.Code != 2 || r.Out != "" {
			t.Errorf("%v: %+v; want exit 2", args, r)
		}
	}
}
