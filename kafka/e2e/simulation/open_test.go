package simulation_test

import "time"

// watchStoreDown checks that a process that is to fail open handles records while the store does not answer.
func (w *world) watchStoreDown() {
	down := w.times[storeDown]
	from, to := down.from+5*time.Second, down.to-5*time.Second
	undisturbed := needs{"registry": {"none"}, "failures": {"no"}, "poison": {"no"}, "slow records": {"no"}, "deployment": {"none"}, "topic": {"kept"}}
	if !w.is("IDEMSK_STORE_DOWN", "open") || !w.meets(undisturbed) || to-from < 5*time.Second || w.times[outage].from < down.to && w.times[outage].to > from {
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
		if r.at > down.from && r.at < from && r.key != "" && r.redrive == 0 && len(w.of(r.key).calls) == 0 && w.of(r.key).entry.status == "" && r.lost == "" {
			w.violatedLockedf(r.source(), "waits while the store does not answer, and no handler was called without a claim from %v to %v", from, to)
		}
	}
}

func (w *world) unprotectedCalls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}
