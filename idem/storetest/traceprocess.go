package storetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

// traceLogVariable is the environment variable of a process whose calls are traced: the time at which the
// test began in epoch milliseconds, and the file to which all processes of the test append what they observe.
const traceLogVariable = "IDEMSK_TRACE_LOG"

// clockTolerance is the maximum difference between the clocks of a process and of its server on the same
// machine.
const clockTolerance = 10 * time.Millisecond

// TraceProcesses returns an assignment of an environment variable for the processes of a test on one store,
// whose MaxClockSkew is skew. With it, TracedProcess records their calls, also those of a process that is
// killed. At the end of the test the traces of the busiest keys are written as those of Run. The assignment
// has no effect unless IDEMSK_TRACE_DIR names a folder.
func TraceProcesses(tb testing.TB, skew time.Duration) (assignment string) {
	tb.Helper()
	dir := os.Getenv(keytrace.DirVariable)
	if dir == "" {
		return traceLogVariable + "="
	}
	began, path := time.Now(), filepath.Join(tb.TempDir(), "observations")
	tb.Cleanup(func() {
		all, err := readObservations(path)
		if err != nil {
			tb.Fatal(err)
		}
		writeTraces(tb, ofBusiestKeys(all),
			&keytrace.Config{Dir: dir, Began: began, Skew: skew, Tolerance: clockTolerance})
	})
	return fmt.Sprintf("%s=%d %s", traceLogVariable, began.UnixMilli(), path)
}

// readObservations reads what the processes have observed. A line that is cut belongs to a call that a killed
// process did not begin, or did not see the end of.
func readObservations(path string) (all []observation, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // of the test that began the trace
	for line := range bytes.Lines(text) {
		var o observation
		if json.Unmarshal(line, &o) == nil {
			all = append(all, o)
		}
	}
	return all, err
}

// ofBusiestKeys returns the observations of the keys that have the most, which are those that were taken over
// or tried again.
func ofBusiestKeys(all []observation) []observation {
	count := make(map[string]int)
	for i := range all {
		count[all[i].Key]++
	}
	keys := slices.SortedFunc(maps.Keys(count),
		func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	for _, key := range keys[min(len(keys), keytrace.MaxOfProcesses):] {
		delete(count, key)
	}
	return slices.DeleteFunc(all, func(o observation) bool { return count[o.Key] == 0 })
}

// TracedProcess returns s, and in a process with the assignment of TraceProcesses a store that records the
// calls of s.
func TracedProcess[S fullStore](s S) (fullStore, error) {
	text := os.Getenv(traceLogVariable)
	if text == "" {
		return s, nil
	}
	at, path, _ := strings.Cut(text, " ")
	began, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("storetest: %s is %q: %w", traceLogVariable, text, err)
	}
	log, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // of the test that began the trace
	if err != nil {
		return nil, err
	}
	// The lines of all processes are in an order in which the calls can have happened: the beginning of a
	// call is written before it, its end after it.
	r := &recorder{fullStore: s, now: time.Now, clock: keytrace.Clock(time.UnixMilli(began)),
		emit: func(o *observation) {
			line, err := json.Marshal(o)
			if err == nil {
				// first, so that a line that was cut has its own
				_, err = log.Write(append([]byte("\n"), line...))
			}
			if err != nil {
				panic(err) // the trace would be wrong
			}
		}}
	batcher, batched := any(s).(store.Batcher)
	transactor, transactional := any(s).(store.Transactor)
	calls, together := any(s).(store.CallTransactor)
	switch {
	case together && batched:
		return struct {
			*recorder
			store.Batcher
			store.CallTransactor
		}{r, batcher, calls}, nil
	case transactional:
		return struct {
			*recorder
			store.Batcher
			store.Transactor
		}{r, batcher, transactor}, nil
	case batched:
		return struct {
			*recorder
			store.Batcher
		}{r, batcher}, nil
	}
	return r, nil
}
