package idem

import (
	"slices"
	"testing"

	"github.com/idemsk/idemsk/idem/internal/machine"
)

// Handlers that use all of the CPU do not delay claims and reports: the calls of handlers are taken last.
func TestCallsAreTakenAfterOtherJobs(t *testing.T) {
	var done []machine.ActionKind
	w := newWorkers(func(job machine.Action) { done = append(done, job.Kind) })
	w.starting = true // no other worker is started
	w.add(machine.Action{Kind: machine.DoCall}, machine.Action{Kind: machine.DoCall}, machine.Action{Kind: machine.DoClaim}, machine.Action{Kind: machine.DoTell})
	w.mu.Lock()
	for w.left() > 0 {
		w.doNext()
	}
	w.mu.Unlock()
	if want := []machine.ActionKind{machine.DoClaim, machine.DoTell, machine.DoCall, machine.DoCall}; !slices.Equal(done, want) {
		t.Errorf("jobs are done in the order %v; want %v", done, want)
	}
}
