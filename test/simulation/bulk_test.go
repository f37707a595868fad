package simulation_test

import (
	"context"
	"errors"
	"slices"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// handleAll is the bulk handler. It handles the records one after another.
func (p *process) handleAll(_ context.Context, rs []kafka.RecordAttempt) (results []idem.BulkResult,
	err error) {
	records, attempts := make([]*record, len(rs)), make([]idem.Attempt, len(rs))
	contexts := make([]context.Context, len(rs))
	for i := range rs {
		records[i] = p.recordAt(
			placeOf(rs[i].Record.Partition, rs[i].Record.Offset, rs[i].Record.Timestamp.UnixMilli()))
		attempts[i], contexts[i] = rs[i].Attempt, rs[i].Context()
	}
	if !p.ended() {
		p.checkCall(records, attempts)
	}
	results = make([]idem.BulkResult, len(rs))
	returned, failed := false, make(map[string]bool)
	defer func() { // also after a panic
		unknown := p.is(effects, "at-most-once") && idem.IsOutcomeUnknown(err)
		p.called(contexts, records, attempts, !returned && (!idem.IsUnavailable(err) || unknown))
	}()
	for i, r := range records {
		if r != nil && failed[p.lane(r)] && p.is("handler", "bulk that stops") {
			results[i].Err = errNotTried
			continue
		}
		result, failure := p.handler(rs[i].Context(), *rs[i].Record)
		if failure != nil && r != nil && p.lane(r) != "" {
			failed[p.lane(r)] = true
		}
		if results[i] = (idem.BulkResult{Value: result, Err: failure}); failure != nil &&
			p.is("handler", "bulk that throws") && !idem.IsPermanent(failure) {
			if i > 0 && p.is(effects, "at-most-once") {
				// idem.Unavailable would say that no record of the call had its effect
				return nil, errors.New(failure.Error())
			}
			return nil, failure
		}
	}
	returned = true
	return results, nil
}

var errNotTried = errors.New("was not tried, because one before it in its lane failed")

// checkCall checks that records that have failed are handled alone.
func (p *process) checkCall(records []*record, attempts []idem.Attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastCallOf++
	for _, r := range records {
		if r != nil {
			r.calls = append(r.calls, p.lastCallOf)
		}
	}
	if len(records) == 1 || !p.promises(once) {
		// an entry that is gone does not tell that its record has failed
		return
	}
	for i, r := range records {
		// a process does not know of attempts after it has lost its claim
		if h := p.of(r.key); attempts[i].Number > 0 && attempts[i].Token >= h.token && h.failedBefore() {
			p.violatedLockedf(r.key, "is handled beside %d other records by %s, and failed at its last attempt", len(records)-1, p.name)
		}
	}
}

// failedBefore reports whether a record failed at its last attempt, or in a call that failed as a whole.
func (h *history) failedBefore() bool {
	if h.alone != 0 && h.alone == h.released {
		return true
	}
	if len(h.calls) == 0 {
		return false
	}
	last := h.calls[len(h.calls)-1]
	return last.counted && last.err != nil && !idem.IsUnavailable(last.err)
}

// called records that a call has ended. After one for several records that failed as a whole, the handler is
// called again with the same attempts, unless what it needs is unavailable. contexts are those of the records,
// nil if the handler has none.
func (p *process) called(contexts []context.Context, records []*record, attempts []idem.Attempt,
	thrown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var calls []*execution
	lanes, failed := make(map[string]bool), make(map[string]bool)
	for i, r := range records {
		lane := p.lane(r)
		first := lane == "" || !lanes[lane]
		lanes[lane] = true
		if attempts[i].Number == 0 {
			continue
		}
		h := p.of(r.key)
		if len(records) > 1 {
			h.called = attempts[i].Token
		}
		if thrown && len(records) > 1 {
			if h.thrown, h.threw = attempts[i].Token, true; first { // the others may wait for it
				h.alone = attempts[i].Token
			}
		}
		if e := p.lastCall(r.key, attempts[i].Token); e != nil {
			calls = append(calls, e)
			e.beside = len(records) > 1
			if contexts != nil && contexts[i].Err() != nil && !e.cancelled {
				// its error may be the result of that, or its claim was lost while the others were handled
				e.cancelled, e.cause = true, context.Cause(contexts[i])
			}
			e.thrown = thrown && e.beside
			e.first = e.first && !e.thrown
			if failing := !e.succeeded && !thrown; lane != "" && failing {
				e.outOfTurn = failed[lane]
				failed[lane] = true
			}
		} else if contexts != nil && contexts[i].Err() != nil { // its error may be the result of that, although it was not tried
			h.threw = true
		}
	}
	good := !thrown && slices.ContainsFunc(calls, func(e *execution) bool { return e.succeeded })
	for _, e := range calls {
		e.besideGood = good
	}
}
