package app

import (
	"runtime/debug"
	"strconv"
)

// The garbage collector's settings. A function's live heap is a few MB, and with Go's default the collector would run
// several times a batch: a quarter of the CPU that batched writes take. What it may use instead is bounded by the function's
// memory, which Lambda names in AWS_LAMBDA_FUNCTION_MEMORY_SIZE.
const (
	gcPercent   = 400
	memoryShare = 0.8
)

// tuneMemory sets them, unless GOGC or GOMEMLIMIT are set: then somebody knows better.
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
