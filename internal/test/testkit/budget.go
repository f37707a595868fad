//go:build unix && !race

package testkit

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// The size of a value, and what it may take to prepare it. The time of a core is 100 ms (docs/schemas.md),
// which the benchmarks measure.
const (
	budgetValue       = 1_000_000
	budgetMemory      = 64 << 20
	budgetAllocations = 1_000_000
	budgetWatchdog    = 5 * time.Second // of CPU time; work that grows with the square of the size takes minutes
)

// Repeated returns a value of at most 1 MB: unit n times, or as often as it fits, between head and tail. So a
// fuzz test that changes a few bytes changes a large value.
func Repeated(head, unit, tail []byte, n uint32) []byte {
	times := 0
	if len(unit) > 0 {
		times = min(int(n), max(0, budgetValue-len(head)-len(tail))/len(unit))
	}
	value := bytes.Join([][]byte{head, bytes.Repeat(unit, times), tail}, nil)
	return value[:min(len(value), budgetValue)]
}

// WithinBudget fails the test if prepare, which prepares a value of at most 1 MB, allocates more than 64 MB or
// 1,000,000 times, also what is freed meanwhile. It does not depend on the speed of the machine: how long
// prepare takes is limited only far above what is usual. No other goroutine may work meanwhile. The race
// detector takes memory of its own, so tests of budgets are not built with it.
func WithinBudget(tb testing.TB, prepare func()) {
	tb.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// what takes far too much does not stop the machine
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(16 * budgetMemory))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := cpuTime()
	prepare()
	took := cpuTime() - begun
	runtime.ReadMemStats(&after)
	memory, allocations := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	if memory > budgetMemory || allocations > budgetAllocations || took > budgetWatchdog {
		tb.Errorf("it took %d bytes of memory in %d allocations, and %v; the budget is %d in %d, and %v",
			memory, allocations, took, budgetMemory, budgetAllocations, budgetWatchdog)
	}
}

func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
