package simulation_test

import (
	"context"
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

// health is what a process has seen of an outage of what its handler needs. It is guarded by w.mu.
type health struct {
	known   map[string]bool // the keys that have failed
	failing map[string]bool // those that have failed since the last success
	costs   map[string]bool // those of them whose first attempt was counted
	signs   int             // the first attempts since the last success of keys that had not failed before
	since   time.Time       // when there were as many as an outage has; zero: there is none
	ended   time.Time       // when the last one has ended
}

func newHealth() health {
	return health{known: make(map[string]bool), failing: make(map[string]bool), costs: make(map[string]bool)}
}

// outageFailures is how many keys are an outage; 0 if outages are not recognised.
func (p *process) outageFailures() int {
	if c := p.variables(); !c.is("IDEMSK_OUTAGE_FAILURES", "off") {
		return c.number("IDEMSK_OUTAGE_FAILURES")
	}
	return 0
}

// note notes how a handler ended.
func (p *process) note(e *execution) {
	h := &p.health
	switch {
	case e.succeeded:
		if !h.since.IsZero() {
			h.ended = time.Now()
		}
		clear(h.failing)
		clear(h.costs)
		h.signs, h.since = 0, time.Time{}
		return
	case e.cancelled && !p.inGroup() && errors.Is(e.cause, context.DeadlineExceeded):
		// it can be a sign, unless its lease was lost too
		h.failing[e.record.key], h.known[e.record.key] = true, true
		return
	case e.cancelled || idem.IsPermanent(e.err):
		return
	}
	h.failing[e.record.key] = true
	if e.first && !idem.IsUnavailable(e.err) && !h.known[e.record.key] {
		h.signs++
	}
	h.known[e.record.key] = true
	most := p.outageFailures()
	if most > 0 && h.signs >= most && h.since.IsZero() {
		h.since = e.at
	}
	// the records of a call count when all of them have ended
	e.inOutage = most > 0 && (len(h.failing) >= most || !p.is("handler", "record"))
}

// failedForNow reports whether the handler returned an error that may be gone at the next attempt.
func (e *execution) failedForNow() bool {
	kind := e.record.payment.Kind
	return errors.Is(e.err, errForNow) && kind != waiting && kind != permanent
}

// checkTries checks that one record at a time tries the handler during an outage. A call of a bulk handler is
// one try.
func (p *process) checkTries(calls map[string]*history, wrong func(string, ...any)) {
	now := time.Now()
	if p.health.since.IsZero() || now.Sub(p.health.since) >= p.variables().duration("IDEMSK_OUTAGE_LIMIT") ||
		!p.is("handler", "record") {
		return
	}
	for _, h := range calls {
		for _, e := range h.calls {
			if e.process == p && !e.ended && e.begun.After(p.health.since) && now.Sub(e.begun) < p.lease {
				wrong("tries the handler of %s beside %s, although what it needs has been down since %v",
					p.name, e.record.source(), p.health.since.Sub(p.begun))
			}
		}
	}
}

// checkOutage checks that an attempt is given back only in an outage, and that an outage costs few first
// attempts: those of one key less than IDEMSK_OUTAGE_FAILURES, and those of keys that had failed before,
// which are no sign of an outage.
func (p *process) checkOutage(e *execution, counted bool, wrong func(string, ...any)) {
	switch {
	case e.outOfTurn:
	case counted && e.down && e.first && !e.besideGood && p.outageFailures() > 0:
		p.health.costs[e.record.key] = true
		if len(p.health.costs) > 2*p.outageFailures() {
			wrong("is the key number %d whose first attempt an outage costs, with %s", len(p.health.costs),
				p.name)
		}
	case !counted && (errors.Is(e.err, errDown) || e.failedForNow()) && e.besideGood:
		wrong("has not counted an attempt that failed beside one that succeeded")
	case !counted && (errors.Is(e.err, errDown) || e.failedForNow()) && !e.inOutage:
		wrong("has not counted an attempt that failed, and %d keys have failed", len(p.health.failing))
	}
}

// checkHeldBack checks that an invocation in which an outage has ended handles the records that the outage
// has held back, if it has the time.
func (p *process) checkHeldBack(began time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, left := &p.health, timeout-time.Since(began)
	if p.is("handler", "record") && // a success in a call that fails ends no outage
		p.heldBack(began, err) && h.ended.After(began) && len(h.failing) == 0 && left > timeout/2 {
		p.violatedLockedf(p.name, "answers after an outage that ended %v ago: %v", time.Since(h.ended), err)
	}
}

// heldBack reports whether err names a record that an outage has held back: one whose handler was not called
// since a time. The caller holds w.mu.
func (p *process) heldBack(began time.Time, err error) bool {
	var batch *eventsource.BatchError
	if !errors.As(err, &batch) {
		return false
	}
	for _, cause := range batch.Causes {
		var of *eventsource.RecordError
		if errors.As(cause, &of) && errors.Is(of.Err, idem.ErrHandlerDown) && !p.calledSince(of.Source, began) {
			return true
		}
	}
	return false
}

// calledSince reports whether the process has called the handler of the record at a place since a time.
func (p *process) calledSince(source string, began time.Time) bool {
	for _, h := range p.keys {
		for _, e := range h.calls {
			if e.process == p && e.record.source() == source && !e.begun.Before(began) {
				return true
			}
		}
	}
	return false
}
