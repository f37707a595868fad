package simulation_test

import (
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
)

// attempts is how long the attempts of a request to the store take at most, and what comes before and after
// them.
const attempts = dynamostore.MaxAttempts*dynamostore.AttemptTimeout + 5*time.Second

// watchStoreDown checks that a process that is to fail open handles records while the store does not answer.
func (w *world) watchStoreDown() {
	down := w.times[storeDown]
	from, to := down.from, down.to
	opens := w.is("IDEMSK_STORE_DOWN", "open") && w.after.is("IDEMSK_STORE_DOWN", "open") &&
		w.is("registry", "none") && w.is("topic", "kept")
	helped := w.is("IDEMSK_OUTAGE_FAILURES", "off") && w.after.is("IDEMSK_OUTAGE_FAILURES", "off") ||
		w.times[outage].from > to || w.times[outage].to < from
	if !opens || !helped || to-from < attempts {
		return
	}
	if sleep(w.stopping, from-time.Since(w.begun)) != nil {
		return
	}
	calls, processes := w.activity()
	if w.inProgress() || sleep(w.stopping, to-from) != nil || w.inProgress() {
		// a completion is sent again and again, for as long as an invocation
		return
	}
	if callsThen, processesThen := w.activity(); callsThen > calls || processesThen > processes {
		// a process that has started was busy with that
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pausedTo > from {
		return
	}
	for _, r := range w.topic.all {
		if r.at < from && r.key != "" && r.redrive == 0 && len(w.of(r.key).calls) == 0 &&
			w.of(r.key).entry.status == "" && r.lost == "" {
			w.violatedLockedf(r.source(),
				"waits while the store does not answer, and no handler was called without a claim from %v to %v", from, to)
		}
	}
}

// notePause notes that a process pauses.
func (w *world) notePause(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pausedTo = max(w.pausedTo, time.Since(w.begun)+d)
}

// activity returns how often handlers were called without a claim, and how many processes have started.
func (w *world) activity() (calls, processes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened, w.processes
}

// inProgress reports whether a key is claimed, or has no entry although its handler was called under a lease, or
// whether its process may not know that it is not.
func (w *world) inProgress() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.keys {
		if h.unanswered || h.entry.status == started && h.entry.retry == 0 ||
			h.entry.status == "" && len(h.calls) > 0 {
			return true
		}
	}
	return false
}

// checkOpened checks that an invocation of a function that is to fail open does not fail, while the store
// does not answer, before it has called a handler, if it has the time. Records without a key need their dead
// letters' entries.
func (p *process) checkOpened(began time.Time, err error) {
	down, c := p.times[storeDown], p.variables()
	if began.Sub(p.begun) < down.from || time.Since(p.begun) > down.to ||
		!c.is("IDEMSK_STORE_DOWN", "open") || !p.is("registry", "none") || !p.is("keyless", "no") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	heldBack := err != nil && strings.Contains(err.Error(), idem.ErrHandlerDown.Error()) // without a request
	if err != nil && !heldBack && p.lastOpened.Before(began) && time.Since(began) < timeout/2 {
		p.violatedLockedf(p.name, "is to fail open, and answers after %v, in which the store did not answer and no handler was called: %v", time.Since(began), err)
	}
}
