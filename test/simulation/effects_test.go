package simulation_test

import (
	"context"
	"errors"
	"slices"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// mayHaveEffect reports whether a call may have had its effect: it has not returned, or not with an error
// that says that there was none.
func (e *execution) mayHaveEffect() bool {
	if e.deniesEffect() {
		return false
	}
	return !e.ended || e.succeeded || e.err == nil || e.cancelled || e.thrown || e.died || idem.IsOutcomeUnknown(e.err) ||
		errors.Is(e.err, context.DeadlineExceeded) || errors.Is(e.err, context.Canceled)
}

// deniesEffect reports whether the handler has returned an error with a mark of idem, which says that there was no
// effect, also if the context of the record ended while the call handled others.
func (e *execution) deniesEffect() bool {
	if !e.ended || e.thrown || e.died || !errors.Is(e.err, errForNow) {
		return false
	}
	kind := e.record.payment.Kind
	return kind == permanent || kind == flaky || kind == waiting
}

// mayHaveHadEffect reports whether a call for a key may have had its effect.
func (h *history) mayHaveHadEffect() bool {
	return slices.ContainsFunc(h.calls, (*execution).mayHaveEffect)
}

// checkUnrepeated checks that no earlier call of a key may have had its effect.
func (p *process) checkUnrepeated(h *history, e *execution, wrong func(string, ...any)) {
	if !p.promises(unrepeated) {
		return
	}
	for _, other := range h.calls {
		if other.mayHaveEffect() {
			wrong("is handled by %s with token %d, and the call by %s with token %d may have had its effect",
				p.name, e.token, other.process.name, other.token)
		}
	}
}

// checkUnknown checks that a dead letter of an unknown outcome has a reason. An owner that releases its key
// between the two steps of a take-over is one, so the letter of a second attempt has it. The caller holds
// w.mu.
func (w *world) checkUnknown(l *letter, h *history) {
	if !h.takenOver && !h.threw && !h.mayHaveHadEffect() {
		w.violatedLockedf(l.Source(), "has an unknown outcome, and each attempt has ended: %s", l.Error.Message)
	}
}

// checkUnended checks at the end that a key that did not complete, and whose handler may have had its effect,
// has a dead letter that says so. The caller holds w.mu.
func (w *world) checkUnended(key string, h *history) {
	if !w.promises(unrepeated) || !w.promises(settled) || len(h.completions) > 0 || !h.mayHaveHadEffect() {
		return
	}
	if !slices.ContainsFunc(w.letters, func(l letter) bool {
		return l.IdempotencyKey == key && l.Error.Code == store.CodeOutcomeUnknown
	}) {
		w.violatedLockedf(key, "may have had its effect, did not complete, and has no dead letter that says so")
	}
}
