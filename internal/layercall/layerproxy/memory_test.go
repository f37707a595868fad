//go:build rest

package layerproxy_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The layer shares the function's memory. Its program, as it is deployed, stays within a bound. Most of it is
// the program itself, and what the collector leaves between two collections: GOGC=15 saves 6 MB in batches of
// 1,000, and takes a third of the throughput.
func TestMemory(t *testing.T) {
	program := filepath.Join(t.TempDir(), "idemsk-layer")
	build := exec.Command("go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o",
		program, "../../../lambda/layer")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the layer: %v: %s", err, out)
	}
	for size, limit := range map[int]int{100: 25 << 10, 1000: 36 << 10} { // in kB
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
			if kb > limit {
				t.Errorf("the layer's peak memory with batches of %d records is %d kB, at most %d are allowed", size, kb, limit)
			}
		})
	}
}
