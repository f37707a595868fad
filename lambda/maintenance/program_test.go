package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// The program as Lambda runs it: EventBridge's event, the metrics on standard output, the log on standard
// error.
func TestProgram(t *testing.T) {
	f := newFixture(t)
	f.add("ledger#payments#dead", 2*time.Hour, 0)
	program := filepath.Join(t.TempDir(), "bootstrap")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", "lambda.norpc", "-o", program,
		".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var mu sync.Mutex
	var metrics, logs strings.Builder
	to := func(b *strings.Builder) func(line []byte) {
		return func(line []byte) {
			mu.Lock()
			defer mu.Unlock()
			b.Write(line)
		}
	}
	cfg := runtimeapi.Config{Command: []string{program}, Name: "maintenance", Timeout: 5 * time.Minute,
		InitTimeout: time.Minute, Stdout: to(&metrics), Stderr: to(&logs)}
	for _, vars := range []map[string]string{f.vars, f.aws} {
		for name, value := range vars {
			cfg.Env = append(cfg.Env, name+"="+value)
		}
	}
	fn, err := runtimeapi.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.s3.Put("/exports/bookings/1.csv", []byte("id\nghost\n"))
	if _, err = fn.Invoke(t.Context(), []byte(reconciles)); err != nil {
		t.Error(err)
	}
	f.add("ledger#payments#unbooked", 2*time.Hour, store.OpComplete)
	f.s3.Put("/exports/bookings/1.csv", []byte("id\n\"ghost\n"))
	if _, err = fn.Invoke(t.Context(), []byte(reconciles)); err == nil ||
		!strings.Contains(err.Error(), "the export can't be read") {
		t.Errorf("%v; want that the export can't be read", err)
	}
	fn.Close(context.Background()) // all lines have come
	for _, want := range []string{`"ExportDifferences":1`, `"KeysRead":2`, `"FunctionName":"maintenance"`} {
		if !strings.Contains(metrics.String(), want) {
			t.Errorf("the metrics do not have %s: %s", want, metrics.String())
		}
	}
	if !strings.Contains(logs.String(), `"key":"ledger#payments#dead"`) {
		t.Errorf("the log does not name the key: %s", logs.String())
	}
}
