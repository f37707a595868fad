package simulation_test

import (
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// attempts is how long the attempts of a request to the store take at most, and what comes before and after them.
const attempts = dynamostore.MaxAttempts*dynamostore.AttemptTimeout + 5*time.Second

// watchStoreDown checks that a process that is to fail open handles records while the store does not answer.
func (w *world) watchStoreDown() {
	down := w.times[storeDown]
	from, to := down.from, down.to
	opens := w.is("IDEMSK_STORE_DOWN", "open") && w.after.is("IDEMSK_STORE_DOWN", "open") && w.is("registry", "none") && w.is("topic", "kept")
	helped := w.is("IDEMSK_OUTAGE_FAILURES", "off") && w.after.is("IDEMSK_OUTAGE_FAILURES", "off") || w.times[outage].from > to || w.times[outage].to < from
	if !opens || !helped || to-from < attempts {
		return
	}
	if sleep(w.stopping, from-time.Since(w.begun)) != nil {
		return
	}
	before := w.unprotectedCalls()
	if sleep(w.stopping, to-from) != nil || w.unprotectedCalls() > before {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.topic.all {
		if r.at < from && r.key != "" && r.redrive == 0 && len(w.of(r.key).calls) == 0 && w.of(r.key).entry.status == "" && r.lost == "" {
			w.violatedLockedf(r.source(), "waits while the store does not answer, and no handler was called without a claim from %v to %v", from, to)
		}
	}
}

func (w *world) unprotectedCalls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}
