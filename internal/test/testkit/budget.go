//go:build unix

package testkit

import (
	"bytes"
	"encoding/json"
	"flag"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// The size of a value, and what it may take to prepare it.
const (
	budgetValue  = 1_000_000
	budgetMemory = 64 << 20
	budgetTime   = 100 * time.Millisecond

	fuzzingFactor = 4 // how much slower code is that is instrumented to fuzz it
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

// WithinBudget fails the test if prepare, which prepares a value of at most 1 MB, allocates more than 64 MB
// or takes longer than 100 ms.
//
// Memory is that of all allocations, also of those that are freed meanwhile, and time is that of the process
// on the CPUs, because other processes use the machine too. So no other goroutine may work meanwhile. The
// garbage collector does not run: memory bounds its work. Where reference work takes longer, so may prepare,
// and it has several attempts. Fuzzing makes the code slower, but not encoding/json, the reference. With the
// race detector, which takes memory and time of its own, nothing is measured.
func WithinBudget(tb testing.TB, prepare func()) {
	tb.Helper()
	if race {
		prepare()
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	// what takes far too much does not stop the machine
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(16 * budgetMemory))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took := timed(prepare)
	runtime.ReadMemStats(&after)
	if memory := after.TotalAlloc - before.TotalAlloc; memory > budgetMemory {
		tb.Fatalf("it took %d bytes of memory, the budget is %d", memory, budgetMemory)
	}
	const attempts = 5
	usual := budgetTime
	if f := flag.Lookup("test.fuzzworker"); f != nil && f.Value.String() == "true" {
		usual *= fuzzingFactor
	}
	limit := usual
	for range attempts {
		if took <= limit {
			return
		}
		limit = time.Duration(float64(usual) * max(1, timed(reference).Seconds()/referenceTime.Seconds()))
		took = timed(prepare)
	}
	tb.Errorf("it took %v, the budget is %v on this machine now", took, limit)
}

func timed(f func()) time.Duration {
	begun := cpuTime()
	f()
	return cpuTime() - begun
}

func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// referenceTime is the time of the reference work on a core of a server of 2024.
const referenceTime = 10 * time.Millisecond

// reference decodes 200 KB of JSON.
func reference() {
	var value any
	if err := json.Unmarshal(referenceText, &value); err != nil {
		panic(err)
	}
}

var referenceText = append(append([]byte("["), bytes.Repeat([]byte("0,"), 100_000)...), "0]"...)
