package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// retry releases the key for another attempt after a delay, and keeps the one that was charged.
func (s *Session) retry(claim *Claim, out Outcome, err error, delay time.Duration) Outcome {
	out.Kind, out.Err, out.RetryIn = Retry, err, delay
	return s.released(claim, out, s.release(claim, failureOf(err), delay, false))
}

// refund releases the key and does not count the attempt. The key can't be claimed again before delay has passed.
func (s *Session) refund(claim *Claim, out Outcome, f *store.Failure, delay time.Duration) Outcome {
	out.RetryIn = max(out.RetryIn, delay)
	return s.released(claim, out, s.release(claim, f, delay, true))
}

func (s *Session) release(claim *Claim, f *store.Failure, delay time.Duration, refund bool) settled {
	set := claim.settlement(store.OpRelease, s.engine.cfg.Retention)
	set.Failure, set.Delay, set.Refund = f, delay, refund
	return s.send(set)
}

// released adds the result of a release to an outcome. A key that could not be released is free when its lease ends.
func (s *Session) released(claim *Claim, out Outcome, r settled) Outcome {
	r.err = claim.fencedBy(r.err, out.Token)
	claim.closed(r.err)
	out.SettleTook = r.took
	s.tellSettled(claim, &out, store.OpRelease, r)
	var fenced *store.FencedError
	if errors.As(r.err, &fenced) {
		before := out.Err
		if out = s.fenced(claim, out, fenced); out.Kind == Fenced {
			out.Err = fmt.Errorf("%w; before that: %w", out.Err, before)
		}
	} else if r.err != nil {
		out.Err = fmt.Errorf("%w (and the key could not be released, it stays taken for up to %v: %w)", out.Err, s.engine.cfg.Lease, r.err)
	}
	return out
}

// concluded adds the result of a settlement to an outcome.
func (s *Session) concluded(claim *Claim, out Outcome, set store.Settlement, r settled) Outcome {
	defer claim.stopHeartbeat()
	r.err = claim.fencedBy(r.err, set.Token)
	s.tellSettled(claim, &out, set.Op, r)
	out.SettleTook = r.took
	if r.err != nil {
		out = s.notSettled(claim, out, set, r.err)
	}
	claim.closed(r.err)
	claim.spend(&store.Settlement{})
	return out
}

// notSettled returns the outcome of a task whose settlement failed. A task whose effect was rejected, or whose key was taken, continues.
func (s *Session) notSettled(claim *Claim, out Outcome, set store.Settlement, err error) Outcome {
	var fenced *store.FencedError
	var rejected *store.RejectedError
	switch {
	case errors.As(err, &fenced):
		return s.fenced(claim, out, fenced)
	case errors.As(err, &rejected):
		out.Kind, out.Result, out.Err = KindUnknown, nil, nil
		return s.failed(claim, out, rejected.Err)
	}
	what := "the task is done, but its completion could not be stored; it"
	if set.Effect != nil {
		what = "the store did not confirm the commit of the task's effect and completion; if they were not committed, the task"
	}
	out.Kind = CompletionFailed
	out.Err = fmt.Errorf("%s runs again when the lease of %v is over: key %q, token %d, from %s: %s: %w",
		what, s.engine.cfg.Lease, set.Key, set.Token, cmp.Or(claim.Task.Source, "an unknown source"), set.Op, err)
	return out
}

// fenced is the second half of rule 3: if the new owner has completed the same request, the task is done, with that owner's result.
func (s *Session) fenced(claim *Claim, out Outcome, err *store.FencedError) Outcome {
	out.Kind, out.Fenced, out.Result, out.Err = Fenced, true, nil, err
	out.Source = err.Current.Source
	if cur := &err.Current; cur.Status == store.StatusCompleted && cur.Fingerprint.Matches(claim.Task.Fingerprint) {
		out.Kind, out.Token = Replayed, cur.Token
		out.Result, out.Err = cur.StoredResult()
	}
	return out
}

func (claim *Claim) settlement(op store.SettleOp, retention time.Duration) store.Settlement {
	return store.Settlement{Op: op, Key: claim.key, Token: claim.res.Entry.Token, Owner: claim.owner, Retention: retention, Claim: claim.insert}
}

// settled is the result of a settlement.
type settled struct {
	err  error
	took time.Duration
}

// releaseTries is the maximum number of times that a release is sent. Completions and failures are sent until the session's deadline.
const releaseTries = 3

// send sends a settlement until the store has answered it, or its time or number of tries has ended.
func (s *Session) send(set store.Settlement) settled {
	started := time.Now()
	ctx, cancel := s.settleContext()
	defer cancel()
	for n := 0; ; n++ {
		err := s.engine.settleOne(ctx, set)
		if answered(err) || (set.Op == store.OpRelease && n+1 >= releaseTries) || !sleep(ctx, backoff(n)) {
			return settled{err: err, took: time.Since(started)}
		}
	}
}

// settleContext bounds a settlement by the session's deadline, or by a lease if there is none.
func (s *Session) settleContext() (context.Context, context.CancelFunc) {
	if s.bounded {
		return s.settling, func() {}
	}
	return context.WithTimeout(s.settling, s.engine.cfg.Lease)
}

// answered reports whether a settlement need not be sent again: it was applied, or the store refused it.
func answered(err error) bool {
	return err == nil || errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRejected) || errors.Is(err, store.ErrClaimRefused) ||
		errors.Is(err, store.ErrForeignEntry)
}

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
