package lambda

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestCollectorIsTunedToTheFunctionsMemory(t *testing.T) {
	limit := debug.SetMemoryLimit(-1)
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	for _, tc := range []struct {
		env     map[string]string
		percent int
		limit   int64
	}{
		{map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512"}, 400, 429496729},
		{map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "GOGC": "50"}, 100, math.MaxInt64},
		{map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "GOMEMLIMIT": "100MiB"}, 100,
			math.MaxInt64},
		{map[string]string{"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "much"}, 100, math.MaxInt64},
		{nil, 100, math.MaxInt64},
	} {
		debug.SetMemoryLimit(math.MaxInt64)
		debug.SetGCPercent(100)
		tuneMemory(func(name string) (string, bool) {
			value, ok := tc.env[name]
			return value, ok
		})
		equal(t, "limit", debug.SetMemoryLimit(-1), tc.limit)
		equal(t, "GC percent", debug.SetGCPercent(100), tc.percent)
	}
}
