package ledger

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// BenchmarkFirstResponse is the time from the start of the function's process until it has answered its first
// event, one record, on the memory store; the program is built as scripts/build.sh builds it.
func BenchmarkFirstResponse(b *testing.B) {
	program := filepath.Join(b.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o",
		program, theFunction)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	payload := event(b, "one-record")
	f, err := runtimeapi.Start(b.Context(), runtimeapi.Config{
		Command: []string{program}, Name: "ledger", Timeout: 30 * time.Second,
		Env: []string{"IDEMSK_STORE=memory"},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close(context.Background())
	for b.Loop() {
		b.StopTimer()
		f.Kill()
		b.StartTimer()
		if _, err := f.Invoke(b.Context(), payload); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/1e3/float64(b.N), "ms/start")
}
