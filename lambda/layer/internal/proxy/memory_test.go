//go:build localstack

package proxy_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The layer shares the function's memory. Its program, as it is deployed, stays within a bound.
func TestMemory(t *testing.T) {
	program := filepath.Join(t.TempDir(), "idemsk-layer")
	build := exec.Command("go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", program, "../..")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the layer: %v: %s", err, out)
	}
	for _, size := range []int{100, 1000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			f := newFixture(t, "")
			f.config.Command = append([]string{program}, f.config.Command[2:]...)
			records := make([]string, size)
			for batch := range 40 {
				for i := range records {
					records[i] = fmt.Sprintf("%d-%d:%s", batch, i, strings.Repeat("x", 200))
				}
				f.answers(event(records...), complete)
			}
			status, err := f.deliver([]byte(memoryEvent))
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(status, "VmHWM:")
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatalf("%v in %s", err, status)
			}
			const limit = 25 << 10
			if kb > limit {
				t.Errorf("the layer's peak memory with batches of %d records is %d kB, at most %d are allowed", size, kb, limit)
			}
		})
	}
}
