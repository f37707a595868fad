//go:build rest

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/childcall"
	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/webcall"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/kafka"
)

// trivial are handlers that only decode the records.
var trivial = map[string]string{
	"payments.py": `
import base64, json

def handler(event, context):
    for records in event["records"].values():
        for record in records:
            json.loads(base64.b64decode(record["value"]))
    return {"batchItemFailures": []}
`,
	"payments.js": `
exports.handler = async (event) => {
  for (const record of Object.values(event.records).flat()) {
    JSON.parse(Buffer.from(record.value, "base64").toString());
  }
  return { batchItemFailures: [] };
};
`,
}

// BenchmarkCall is the time from the records of a call to their results, with a handler that only decodes
// them: what the program adds to a handler.
func BenchmarkCall(b *testing.B) {
	installed := output(b, "../../scripts/runtimes.sh", "web")
	folder := b.TempDir()
	for name, source := range trivial {
		write(b, filepath.Join(folder, name), []byte(source))
	}
	for _, name := range []string{"web.py", "web.js"} {
		source, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			b.Fatal(err)
		}
		write(b, filepath.Join(folder, name), source)
	}
	b.Setenv("PYTHONPATH", folder)
	b.Setenv("LAMBDA_TASK_ROOT", folder)
	b.Setenv("NODE_PATH", filepath.Join(installed, "web/node_modules"))
	for _, handler := range []struct {
		name    string
		start   func(*testing.B, []string) layercall.Runtime
		command []string
	}{
		{"Express", startService, []string{"node", filepath.Join(folder, "web.js")}},
		{"FastAPI", startService, []string{filepath.Join(installed, "web/bin/python"), filepath.Join(folder, "web.py")}},
		{"function in Node.js", startFunction, []string{"node",
			filepath.Join(installed, "node/node_modules/aws-lambda-ric/bin/index.mjs"),
			filepath.Join(folder, "payments.handler")}},
		{"function in Python", startFunction, []string{filepath.Join(installed, "python/bin/python"), "-m",
			"awslambdaric", "payments.handler"}},
	} {
		b.Run(handler.name, func(b *testing.B) {
			caller := &layercall.Caller{Runtime: handler.start(b, handler.command),
				MaxEvent: childcall.MaxEvent}
			for _, records := range []int{1, 100} {
				b.Run(fmt.Sprint(records), func(b *testing.B) { calls(b, caller, records) })
			}
		})
	}
}

func write(b *testing.B, file string, text []byte) {
	b.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		b.Fatal(err)
	}
}

// startService runs a web service, and returns what calls it.
func startService(b *testing.B, command []string) layercall.Runtime {
	b.Helper()
	port, err := serverproc.FreePort(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	p, err := subprocess.Start(append(command, fmt.Sprint(port)), nil, func(line []byte) { b.Logf("%s", line) })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Signal(syscall.SIGKILL); <-p.Ended() })
	client, err := webcall.New(fmt.Sprintf("http://127.0.0.1:%d/records", port), time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	return client.Call
}

// startFunction runs a process of a function, and returns what calls it.
func startFunction(b *testing.B, command []string) layercall.Runtime {
	b.Helper()
	var printed bytes.Buffer
	pool, err := childcall.Start(b.Context(), childcall.Config{Command: command, Processes: 1,
		Timeout: time.Minute, Name: "payments", Env: os.Environ(), Stdout: &printed, Stderr: &printed})
	if err != nil {
		b.Fatalf("%v\n%s", err, printed.Bytes())
	}
	b.Cleanup(func() { pool.Close(b.Context()) })
	return pool.Call
}

// calls makes calls with a number of records, and reports how long they take.
func calls(b *testing.B, caller *layercall.Caller, records int) {
	rs := make([]kafka.RecordAttempt, records)
	for i := range rs {
		key := fmt.Sprint("payment-", i)
		rs[i].Record = &kafka.Record{Topic: topic, Offset: int64(i), Key: []byte(key),
			Value: fmt.Appendf(nil, `{"paymentId":%q,"account":"account-1","amount":1250}`, key)}
	}
	call := func() error {
		results, err := caller.Many(b.Context(), rs)
		if err == nil && len(results) != records {
			err = fmt.Errorf("%d results of %d records", len(results), records)
		}
		return err
	}
	for began := time.Now(); call() != nil; <-time.After(10 * time.Millisecond) { // it starts
		if time.Since(began) > time.Minute {
			b.Fatal(call())
		}
	}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
}
