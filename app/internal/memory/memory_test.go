package memory_test

import (
	"math"
	"os"
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/idemsk/idemsk/app/internal/memory"
)

func TestTune(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	for name, tc := range map[string]struct {
		env     map[string]string
		bytes   int64
		percent int
		limit   int64
	}{
		"a bound":               {nil, 512 << 20, 400, 429496729},
		"a bound, and GOGC":     {map[string]string{"GOGC": "50"}, 512 << 20, 100, math.MaxInt64},
		"a bound, and a limit":  {map[string]string{"GOMEMLIMIT": "100MiB"}, 512 << 20, 100, math.MaxInt64},
		"the memory is unknown": {nil, 0, 100, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			setenv(t, tc.env, "GOGC", "GOMEMLIMIT")
			debug.SetMemoryLimit(math.MaxInt64)
			debug.SetGCPercent(100)
			memory.Tune(tc.bytes)
			if got := debug.SetMemoryLimit(-1); got != tc.limit {
				t.Errorf("limit %d, want %d", got, tc.limit)
			}
			if got := debug.SetGCPercent(100); got != tc.percent {
				t.Errorf("GC percent %d, want %d", got, tc.percent)
			}
		})
	}
}

// setenv sets variables for a test, and unsets those that it does not have.
func setenv(t *testing.T, env map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		t.Setenv(name, env[name]) // restores it at the end
		if _, ok := env[name]; !ok {
			_ = os.Unsetenv(name)
		}
	}
}

func TestOfFunction(t *testing.T) {
	for text, want := range map[string]int64{"512": 512 << 20, "": 0, "much": 0, "-1": 0} {
		t.Setenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", text)
		if got := memory.OfFunction(); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestOfContainer(t *testing.T) {
	t.Parallel()
	const v2, v1 = "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"
	for name, tc := range map[string]struct {
		file, text string
		want       int64
	}{
		"version 2":               {v2, "536870912\n", 512 << 20},
		"version 2, no limit":     {v2, "max\n", 0},
		"version 1":               {v1, "536870912\n", 512 << 20},
		"version 1, no limit":     {v1, "9223372036854771712\n", 0},
		"no file, as on macOS":    {"etc/hosts", "", 0},
		"not what the kernel has": {v2, "\n", 0},
	} {
		if got := memory.OfContainer(fstest.MapFS{tc.file: {Data: []byte(tc.text)}}); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}
