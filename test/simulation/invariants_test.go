package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// entry is what the store keeps of a key, as far as the invariants need it.
type entry struct {
	status, owner               string
	token, lease, retry, expiry int64 // epoch ms, the expiry in s
	attempts                    int64
	fingerprint, result         []byte
}

const completed, failed, started = "COMPLETED", "FAILED", "STARTED"

func (e *entry) final() bool { return e.status == completed || e.status == failed }

func entryOf(item map[string]attributeValue) (e entry) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(item[name].N, 10, 64) // 0 if it is absent
		return n
	}
	return entry{
		status: item["status"].S, owner: item["owner"].S, token: number("version"),
		lease: number("leaseUntil"), retry: number("retryAt"),
		expiry: number("expiryTimestamp"), attempts: number("attempts"),
		fingerprint: item["requestFingerprint"].B, result: item["responsePayload"].B,
	}
}

// history is what was observed of a key.
type history struct {
	entry   entry // after the last step
	calls   []*execution
	claimed time.Time // when it was claimed last
	called  int64     // the token of the last call of several records
	thrown  int64     // that of the last one that failed as a whole
	alone   int64     // that of the last such call in which it was the first of its lane
	// the token with which it was released last, after its handler was called or its call failed
	released    int64
	unprotected int            // calls without a claim that succeeded, or whose dead letter was sent
	refused     bool           // a call without a claim failed for good
	completions map[int64]bool // the tokens with which it became COMPLETED
	failures    map[int64]bool // the tokens with which it became FAILED
	unanswered  bool           // the last request with it had an effect, and its reply was lost
	threw       bool           // a call of several records that had it failed as a whole, or was cancelled before it
	takenOver   bool           // it was claimed after an attempt that did not complete
	redriven    map[int64]bool // those that a redriven record has carried
	// those of which such a record was written to the topic, or settled by the function
	delivered map[int64]bool
	token     int64 // the greatest
	prints    map[string]bool
}

// of returns the history of a key. The caller holds w.mu.
func (w *world) of(key string) *history {
	h := w.keys[key]
	if h == nil {
		h = &history{completions: make(map[int64]bool), failures: make(map[int64]bool),
			redriven: make(map[int64]bool), delivered: make(map[int64]bool), prints: make(map[string]bool)}
		w.keys[key] = h
	}
	return h
}

// done reports whether a key was final at some time, or was handled without protection.
func (h *history) done() bool {
	return len(h.completions) > 0 || len(h.failures) > 0 || h.unprotected > 0
}

// doneAfter reports whether a key was completed, or failed with a greater token than that of a letter.
func (h *history) doneAfter(token int64) bool {
	for failed := range h.failures {
		if failed > token {
			return true
		}
	}
	return len(h.completions) > 0
}

// check compares the entry of a key with the one before the step of a process. The caller holds w.mu.
func (w *world) check(p *process, key string) {
	h := w.of(key)
	before, now := h.entry, entryOf(w.item(keysTable, "idempotencyKey", key))
	wrong := func(format string, args ...any) {
		w.violatedLockedf(key, "%s\n  before: %+v\n  now:    %+v", fmt.Sprintf(format, args...), before, now)
	}
	if !reflect.DeepEqual(before, now) {
		h.entry = now
		w.trace = append(w.trace, event{time.Since(w.begun), p.name,
			fmt.Sprintf("makes %s %s, token %d, attempt %d, retry %d", key, now.status, now.token,
				now.attempts, now.retry)})
		w.checkChange(p, key, &before, &now, wrong)
	}
	if total := w.item(bookingsTable, "payment", key)["total"].N; w.transactional() &&
		total != numberOf(len(h.completions)) {
		wrong("is booked %q times, and was COMPLETED %d times", total, len(h.completions))
	}
}

// numberOf is a number as an item has it: none for 0.
func numberOf(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// transactional reports whether effects commit with the completion.
func (s *settings) transactional() bool {
	return s.is("effects", "enlisted") || s.is("effects", "outbox")
}

func (w *world) checkChange(p *process, key string, before, now *entry, wrong func(string, ...any)) {
	h := w.of(key)
	clock := time.Now().Add(p.offset).UnixMilli()
	switch {
	case now.status == "":
		wrong("was deleted")
	case before.final() && before.status == now.status && before.token == now.token:
		wrong("was final and has changed")
	case before.final() && (before.status == completed || !h.redriven[before.token]) &&
		before.expiry*1000+skew.Milliseconds() > clock:
		wrong("was final, was not redriven, and has changed %d ms before the end of its retention",
			before.expiry*1000+skew.Milliseconds()-clock)
	case now.status == started && now.expiry*1000 < now.lease:
		wrong("can be deleted before its lease ends")
	case now.token < h.token, now.owner != before.owner && now.token == h.token:
		wrong("has the token %d after the token %d", now.token, h.token)
	case now.owner != before.owner:
		h.claimed = time.Now()
		h.takenOver = h.takenOver || before.status == started
		w.checkClaim(p, before, now, wrong)
	default:
		w.checkSettlement(p, key, before, now, wrong)
	}
	h.token = max(h.token, now.token)
	h.prints[string(now.fingerprint)] = true
	if now.status == started && now.retry != 0 && now.attempts == 0 {
		h.givenBack(now.token)
	}
	switch now.status {
	case completed:
		h.completions[now.token] = true
		h.settled()
		w.checkCompletion(p, key, now, wrong)
	case failed:
		h.failures[now.token] = true
		h.settled()
		w.checkFailure(key, now, wrong)
	}
	if len(h.completions) > 1 && w.promises(once) {
		wrong("was COMPLETED %d times", len(h.completions))
	}
}

// givenBack records that the first attempt was given back.
func (h *history) givenBack(token int64) {
	for _, e := range h.calls {
		if e.token == token {
			e.first = false
		}
	}
}

// settled records that the next attempt is a first one, and not behind one that failed.
func (h *history) settled() {
	h.thrown, h.alone = 0, 0
	for _, e := range h.calls {
		e.first, e.counted = false, false
	}
}

// checkClaim checks a step that changed the owner.
func (w *world) checkClaim(p *process, before, now *entry, wrong func(string, ...any)) {
	// A process may use an owner twice: it sends a claim again without knowing that the first one was
	// applied, and was taken over meanwhile.
	if other := w.owners[now.owner]; other != nil && other != p {
		wrong("was claimed under an owner that %s had used", other.name)
	}
	w.owners[now.owner] = p
	clock := time.Now().Add(p.offset).UnixMilli()
	switch {
	case now.status != started:
		wrong("has a new owner without a claim")
	case before.status == "" || before.final() || before.expiry*1000+skew.Milliseconds() <= clock &&
		now.attempts == 1:
		if now.attempts != 1 || now.retry != 0 {
			wrong("is new, and not at its first attempt")
		}
	case now.token != before.token+1 || now.attempts != before.attempts+1 || now.retry != 0:
		wrong("was taken over, and its token or attempts are not one more")
	case before.retry != 0 && clock < before.retry:
		wrong("was taken before its retry time")
	case before.retry == 0 && clock < before.lease+skew.Milliseconds():
		wrong("was taken %d ms before its lease was over at the clock of %s",
			before.lease+skew.Milliseconds()-clock, p.name)
	case before.retry == 0 && !p.link.failedLately() && (before.attempts > 1 || w.is(effects, "at-most-once")):
		p.checkTakenOverAlone(wrong)
	}
}

// checkTakenOverAlone checks that a process that takes a key over from the second owner that may have died handles
// nothing else.
func (p *process) checkTakenOverAlone(wrong func(string, ...any)) {
	for _, h := range p.keys {
		for _, e := range h.calls {
			if e.process == p && e.live() {
				wrong("was taken over from an owner whose lease is over, and %s handles %s", p.name,
					e.record.source())
			}
		}
	}
}

// checkSettlement checks a step that kept the owner.
func (w *world) checkSettlement(p *process, key string, before, now *entry, wrong func(string, ...any)) {
	released := before.retry == 0 && now.retry != 0
	switch {
	case w.owners[now.owner] != p:
		wrong("was changed by %s, which does not own it", p.name)
	case now.token != before.token:
		wrong("has a new token under the same owner")
	case before.retry != 0:
		wrong("was changed by an owner that had released it")
	case now.attempts != before.attempts && (!released || now.attempts != before.attempts-1):
		wrong("has other attempts under the same owner")
	case now.status == started && now.lease < before.lease:
		wrong("has a shorter lease")
	case released:
		p.checkRelease(key, before, now, wrong)
	}
}

// checkRelease checks whether the attempt of a handler that failed was given back, and how long its key is
// delayed.
func (p *process) checkRelease(key string, before, now *entry, wrong func(string, ...any)) {
	e, h := p.lastCall(key, now.token), p.of(key)
	if e != nil || h.thrown == now.token {
		h.released = now.token
	}
	// then the error decides nothing, because the handler may have been cancelled
	over := before.lease < time.Now().Add(p.offset).UnixMilli()
	counted := now.attempts == before.attempts
	if e == nil {
		lost := h.called == now.token && p.link.failedSince(h.claimed) // during its call, in which another failed
		if counted && !over && !lost && before.attempts < p.maxAttempts && !p.isPlace(key) {
			wrong("has counted an attempt whose handler has not begun")
		}
		return
	}
	e.counted = counted && !over && !e.cancelled
	if e.outOfTurn && e.counted && e.ended {
		wrong("has counted an attempt behind one of its lane that failed in its call")
	}
	lost := errors.Is(e.cause, idem.ErrLeaseLost)
	switch {
	case e.succeeded && counted && !over && !e.cancelled && !e.thrown && e.record.payment.Kind != rejected:
		wrong("has counted an attempt that has succeeded")
	case e.beside && counted && !over && !lost && errors.Is(e.err, context.DeadlineExceeded) &&
		!p.is("handler", "layer"):
		// a function has its own errors
		wrong("has counted an attempt that its call with others has used up the time of")
	case !e.ended || e.succeeded || !e.cancelled || p.is("handler", "layer"):
	case lost && !counted:
		wrong("has given an attempt back after its lease was lost")
	case !lost && !over && counted && p.inGroup() && errors.Is(e.err, e.cause):
		wrong("has counted an attempt that the end of its process has cancelled")
	}
	if over || !e.ended || e.succeeded || e.cancelled || e.thrown || idem.IsPermanent(e.err) {
		return
	}
	// A function has no cause. Then a release has the delay of the engine.
	mayBeLost := p.is("handler", "layer") && (p.link.failedSince(h.claimed) || time.Since(h.claimed) >= p.lease)
	if errors.Is(e.err, errForNow) && e.record.payment.Kind == waiting && counted && !mayBeLost {
		wrong("has counted an attempt at which what the handler needs was unavailable")
	}
	delay := e.delay
	switch {
	case counted && now.attempts >= p.maxAttempts:
		delay = 0 // its dead letter was not sent, which is tried again soon
	case counted && delay == 0:
		delay = p.delayAfter(now.attempts)
	}
	if end := e.at.Add(p.offset + delay).UnixMilli(); now.retry < end-1 && (!counted || !mayBeLost) {
		wrong("may be claimed %d ms before the delay of its attempt is over", end-now.retry)
	}
	p.checkOutage(e, counted, wrong)
}

// lastCall returns the last call of the process's handler with a token, nil if there is none.
func (p *process) lastCall(key string, token int64) *execution {
	for _, e := range slices.Backward(p.of(key).calls) {
		if e.process == p && e.token == token {
			return e
		}
	}
	return nil
}

// delayAfter is the shortest delay after an attempt.
func (p *process) delayAfter(attempt int64) time.Duration {
	d := p.variables().duration("IDEMSK_RETRY_DELAY")
	for range attempt - 1 {
		d = min(4*d, 5*time.Minute)
	}
	return d * 3 / 4
}

// variables are those of the process's deployment.
func (p *process) variables() config { return p.configOf(p.deployment) }

// checkCompletion checks that the result is that of the owner's handler.
func (w *world) checkCompletion(p *process, key string, now *entry, wrong func(string, ...any)) {
	var r receipt
	unreadable := len(now.result) > 0 && json.Unmarshal(now.result, &r) != nil
	calls := w.of(key).calls
	i := slices.IndexFunc(calls, func(e *execution) bool {
		// without a promise that it is alone, a key can have several with its token
		return e.process == p && e.token == now.token && e.succeeded &&
			(w.promises(alone) || len(now.result) == 0 || e.record.source() == r.Source)
	})
	if i < 0 {
		wrong("is COMPLETED by %s, whose handler has not succeeded with token %d", p.name, now.token)
		return
	}
	switch {
	case string(calls[i].record.print) != string(now.fingerprint):
		wrong("is COMPLETED with the fingerprint of another record than %s", calls[i].record.source())
	case unreadable, len(now.result) > 0 && (r.Token != now.token || r.Source != calls[i].record.source()):
		wrong("is COMPLETED with token %d and the result %s", now.token, now.result)
	}
}

// checkFailure checks that the dead letter was sent before.
func (w *world) checkFailure(key string, now *entry, wrong func(string, ...any)) {
	if !w.isPlace(key) && !slices.ContainsFunc(w.letters,
		func(l letter) bool { return l.IdempotencyKey == key && l.Token == now.token }) {
		wrong("is FAILED, and its dead letter was not sent")
	}
}

// checkLetter checks that a dead letter is of a record, and has a reason. The key may not be FAILED
// afterwards: its process may die before that.
func (w *world) checkLetter(l *letter) {
	r := w.topic.byPlace[l.place()]
	if r == nil {
		w.violatedLockedf(l.Source(), "has a dead letter, and is no record")
		return
	}
	if r.key == "" {
		return
	}
	h := w.of(r.key)
	if h.refused && l.Attempts == 0 {
		h.unprotected++
	}
	attempts := int64(l.Attempts)
	switch {
	case len(h.prints) > 1 || w.misused(r): // it has no usable key
	case r.payment.Kind.fails(), r.unknown:
	case l.Error.Code == store.CodeOutcomeUnknown && w.is(effects, "at-most-once"):
		w.checkUnknown(l, h)
	case r.redrive > 0 && !w.promises(once): // the entry that it would open is gone
	case attempts > w.maxAttempts, attempts == w.maxAttempts && w.maxAttempts < 8:
		// processes died, or attempts are few
	case attempts == w.maxAttempts && slices.ContainsFunc(h.calls, func(e *execution) bool { return e.down }):
		// fewer keys than an outage needs had failed
	default:
		w.violatedLockedf(r.source(), "has a dead letter after %d attempts: %s", l.Attempts, l.Error.Message)
	}
}

// isPlace reports whether a stored key is that of a place, under which a record without a usable key is
// settled.
func (w *world) isPlace(key string) bool {
	return slices.ContainsFunc(w.topic.all, func(r *record) bool { return r.stored == key })
}

// isPlaceOfUnknown reports whether a stored key is the place of a record that was redriven with a token that
// its key never had.
func (w *world) isPlaceOfUnknown(key string) bool {
	return slices.ContainsFunc(w.topic.all, func(r *record) bool { return r.unknown && r.stored == key })
}

// hasLetter reports whether there is or was a dead letter of a record.
func (w *world) hasLetter(r *record) bool {
	return slices.ContainsFunc(w.letters, func(l letter) bool { return l.place() == r.place() })
}

// settledRecord reports whether nothing needs to be done any more for a record. The caller holds w.mu.
func (w *world) settledRecord(r *record) bool {
	return r.lost != "" || w.hasLetter(r) || r.key != "" && w.of(r.key).done()
}

// state describes a record and its key.
func (w *world) state(r *record) string {
	e := entry{}
	if r.key != "" {
		e = w.of(r.key).entry
	}
	return fmt.Sprintf("key %q, place %q, %s, %+v", r.key, r.stored, r.payment.Kind, e)
}

// open describes the records that are not settled and the keys that are not final.
func (w *world) open() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := ""
	for _, r := range w.topic.all {
		if !w.settledRecord(r) {
			text += r.source() + ": " + w.state(r) + "; "
		}
	}
	return text
}
