package schedule

import (
	"slices"
	"testing"
)

// Handlers that use all of the CPU do not delay claims and reports: the calls of handlers are taken last.
func TestCallsAreTakenAfterOtherJobs(t *testing.T) {
	var done []actionKind
	w := newWorkers(func(job action) { done = append(done, job.kind) })
	w.starting = true // no other worker is started
	w.add(action{kind: doCall}, action{kind: doCall}, action{kind: doClaim}, action{kind: doTell})
	w.mu.Lock()
	for w.left() > 0 {
		w.doNext()
	}
	w.mu.Unlock()
	if want := []actionKind{doClaim, doTell, doCall, doCall}; !slices.Equal(done, want) {
		t.Errorf("jobs are done in the order %v; want %v", done, want)
	}
}
