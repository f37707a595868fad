package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
)

// settlementAnswer is the answer to a settlement.
type settlementAnswer struct {
	err  error
	took time.Duration
}

// retry releases the key for another attempt after a delay, and keeps the one that was charged.
func (x *execution) retry(err error, delay time.Duration) {
	x.out.Kind, x.out.Err, x.out.RetryIn = Retry, err, delay
	x.release(x.claim.failure(err), delay, false)
}

// refund releases the key and does not count the attempt. The key can't be claimed again before delay has
// passed.
func (x *execution) refund(f *store.Failure, delay time.Duration) {
	x.out.RetryIn = max(x.out.RetryIn, delay)
	x.release(f, delay, true)
}

// release releases the key. One that could not be released is free when its lease ends, and so is one of an
// attempt that did not end (takesUnended).
func (x *execution) release(f *store.Failure, delay time.Duration, refund bool) {
	if x.session.engine.takesUnended(x.claim) {
		x.out.RetryIn = max(x.out.RetryIn, x.cfg().Lease)
		return
	}
	set := x.claim.settlement(store.OpRelease, x.cfg().Retention)
	set.Failure, set.Delay, set.Refund = f, delay, refund
	answer := x.received(&set, x.session.send(set))
	var fenced *store.FencedError
	switch before := x.out.Err; {
	case errors.As(answer.err, &fenced):
		if x.fenced(fenced); x.out.Kind == Fenced {
			x.out.Err = fmt.Errorf("%w; before that: %w", x.out.Err, before)
		}
	case answer.err != nil:
		x.out.Err = fmt.Errorf("%w (and the key could not be released, it stays taken for up to %v: %w)",
			before, x.cfg().Lease, answer.err)
	}
}

// settled adds the answer to a completion or a failure to the outcome.
func (x *execution) settled(set store.Settlement, answer settlementAnswer) {
	defer x.claim.stopHeartbeat()
	if answer = x.received(&set, answer); answer.err != nil {
		x.notSettled(&set, answer.err)
	}
	x.claim.reset()
}

// received tells the observer the answer to a settlement. The attempt is that of the outcome, because the
// claim may have been reset.
func (x *execution) received(set *store.Settlement, answer settlementAnswer) settlementAnswer {
	x.out.SettleTook = answer.took
	if observer := x.cfg().Observer; observer != nil {
		observer.Observe(x.session.ctx, Event{
			Step: observe.Settle, Task: &x.claim.Task, Attempt: x.out.attempt(&x.claim.Task),
			StoredKey: x.claim.key,
			Op:        set.Op, Took: answer.took, Err: answer.err,
		})
	}
	return answer
}

// notSettled makes the outcome that of a task whose settlement failed. A task whose effect was rejected, or
// whose key was taken, continues.
func (x *execution) notSettled(set *store.Settlement, err error) {
	var fenced *store.FencedError
	var rejected *store.RejectedError
	switch {
	case errors.As(err, &fenced):
		x.fenced(fenced)
		return
	case errors.As(err, &rejected):
		x.out.Kind, x.out.Result, x.out.Err = KindUnknown, nil, nil
		if x.atMostOnce() { // its handler succeeded, and may have done more than what the store refused
			x.outcomeUnknown(x.claim.begunError(rejected.Err))
		} else {
			x.failed(rejected.Err)
		}
		return
	}
	what := "the task is done, but its completion could not be stored; it"
	if set.Effect != nil {
		what = "the store did not confirm the commit of the task's effect and completion; " +
			"if they were not committed, the task"
	}
	then := "runs again"
	if x.atMostOnce() {
		then = "becomes a dead letter"
	}
	x.out.Kind = CompletionFailed
	x.out.Err = fmt.Errorf("%s %s when the lease of %v is over: key %q, token %d, from %s: %s: %w", what, then,
		x.cfg().Lease, set.Key, set.Token, cmp.Or(x.claim.Task.Source, "an unknown source"), set.Op, err)
}

// fenced is the second half of rule 3: if the new owner has completed the same request, the task is done,
// with that owner's result.
func (x *execution) fenced(err *store.FencedError) {
	x.out.Kind, x.out.Fenced, x.out.Result, x.out.Err = Fenced, true, nil, err
	x.out.Source = err.Current.Source
	cur := &err.Current
	if cur.Status == store.StatusCompleted && cur.Fingerprint.Matches(x.claim.Task.Fingerprint) {
		x.out.Kind, x.out.Token = Replayed, cur.Token
		x.out.Result, x.out.Err = cur.StoredResult()
	}
}

// releaseTries is the maximum number of times that a release is sent. Completions and failures are sent until
// the session's deadline.
const releaseTries = 3

// send sends a settlement until the store has answered it, or its time or number of tries has ended.
func (s *session) send(set store.Settlement) settlementAnswer {
	started := time.Now()
	ctx, cancel := s.settleContext()
	defer cancel()
	var err error
	for n := 0; ; n++ {
		err = telling(ctx, err, s.engine.settleOne(ctx, set))
		if answered(err) || (set.Op == store.OpRelease && n+1 >= releaseTries) || !sleep(ctx, backoff(n)) {
			return settlementAnswer{err: err, took: time.Since(started)}
		}
	}
}

// telling returns the error of the last request of some. That of the one before tells more if the time has ended
// meanwhile.
func telling(ctx context.Context, before, last error) error {
	if before != nil && last != nil && ctx.Err() != nil && errors.Is(last, ctx.Err()) {
		return before
	}
	return last
}

// sendReleases sends releases, up to releaseTries times.
func (s *session) sendReleases(ss []store.Settlement) {
	if len(ss) == 0 {
		return
	}
	ctx, cancel := s.settleContext()
	defer cancel()
	for n := 0; len(ss) > 0 && n < releaseTries; n++ {
		if n > 0 && !sleep(ctx, backoff(n-1)) {
			return
		}
		ss = notAnswered(ss, s.engine.store.Settle(ctx, ss))
	}
}

// notAnswered returns the settlements that the store has not answered.
func notAnswered(ss []store.Settlement, errs []error) (left []store.Settlement) {
	for i, err := range errs {
		if !answered(err) {
			left = append(left, ss[i])
		}
	}
	return left
}

// settleContext bounds a settlement by the session's deadline, or by a lease if there is none.
func (s *session) settleContext() (context.Context, context.CancelFunc) {
	if s.bounded {
		return s.settling, func() {}
	}
	return context.WithTimeout(s.settling, s.engine.cfg.Lease)
}

// answered reports whether a settlement need not be sent again: it was applied, or the store refused it.
func answered(err error) bool {
	return err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRejected) ||
		errors.Is(err, store.ErrForeignEntry)
}

var settleScratch = sync.Pool{New: func() any { return new([1]store.Settlement) }}

func (e *Engine) settleOne(ctx context.Context, set store.Settlement) error {
	buf, _ := settleScratch.Get().(*[1]store.Settlement)
	defer settleScratch.Put(buf)
	buf[0] = set
	errs := e.store.Settle(ctx, buf[:])
	buf[0] = store.Settlement{}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}
