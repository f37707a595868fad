package lambda

import (
	"runtime/debug"
	"strconv"
)

// The settings of the garbage collector. A function's live heap is a few MB. With Go's default the collector
// would run several times per batch, which takes a quarter of the CPU time of batched writes. The memory that
// it may use instead is bounded by the function's memory, which Lambda provides in
// AWS_LAMBDA_FUNCTION_MEMORY_SIZE.
const (
	gcPercent   = 400
	memoryShare = 0.8
)

// tuneMemory applies the settings, unless GOGC or GOMEMLIMIT is set.
func tuneMemory(lookup func(name string) (string, bool)) {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if _, ok := lookup(name); ok {
			return
		}
	}
	text, _ := lookup("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")
	mb, err := strconv.Atoi(text)
	if err != nil || mb <= 0 {
		return // not in Lambda
	}
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(int64(memoryShare * float64(mb) * (1 << 20)))
}
