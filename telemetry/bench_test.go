package telemetry_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// BenchmarkFirstResponse compares a function with telemetry, without an SDK, with one that has none: the time
// from the start of the process until it has answered its first event, of one record, as the median of the
// starts, which take turns; and the size of the program.
func BenchmarkFirstResponse(b *testing.B) {
	payload, err := os.ReadFile("../events/one-record.json")
	if err != nil {
		b.Fatal(err)
	}
	programs := []string{"without", "with"}
	functions := make([]*runtimeapi.Function, len(programs))
	times := make([][]time.Duration, len(programs))
	sizes := make([]int64, len(programs))
	for i, name := range programs {
		functions[i], sizes[i] = start(b, name)
	}
	for b.Loop() {
		for i, f := range functions {
			f.Kill()
			began := time.Now()
			if _, err := f.Invoke(b.Context(), payload); err != nil {
				b.Fatal(err)
			}
			times[i] = append(times[i], time.Since(began))
		}
	}
	for i, name := range programs {
		slices.Sort(times[i])
		b.ReportMetric(float64(times[i][len(times[i])/2].Microseconds())/1e3, "ms-"+name)
		b.ReportMetric(float64(sizes[i]), "bytes-"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// start builds a program as scripts/build.sh does, and returns it as a function, and its size in bytes.
func start(b *testing.B, name string) (*runtimeapi.Function, int64) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o",
		program, "./internal/cost/"+name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(program)
	if err != nil {
		b.Fatal(err)
	}
	f, err := runtimeapi.Start(b.Context(), runtimeapi.Config{
		Command: []string{program}, Name: "ledger", Timeout: 30 * time.Second,
		Env: []string{"IDEMSK_STORE=memory"},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close(context.Background()) })
	return f, info.Size()
}
