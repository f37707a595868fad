package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// retry releases the key for another attempt and keeps the one that was charged.
func (s *Session) retry(claim *Claim, out Outcome, err error, delay time.Duration) Outcome {
	out.Kind, out.Err = Retry, err
	return s.released(claim, out, s.release(claim, failureOf(err), delay, false))
}

// giveBack releases the key with its attempt.
func (s *Session) giveBack(claim *Claim, out Outcome, f *store.Failure) Outcome {
	return s.released(claim, out, s.release(claim, f, 0, true))
}

func (s *Session) release(claim *Claim, f *store.Failure, delay time.Duration, refund bool) settled {
	set := claim.settlement(store.OpRelease, s.engine.cfg.Retention)
	set.Failure, set.Delay, set.Refund = f, delay, refund
	return s.send(set)
}

// released adds to an outcome how its release went. A key that could not be released is free when its lease is over.
func (s *Session) released(claim *Claim, out Outcome, r settled) Outcome {
	out.SettleTook = r.took
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

// concluded adds to an outcome how its settlement went.
func (s *Session) concluded(claim *Claim, out Outcome, set store.Settlement, r settled) Outcome {
	defer claim.letGo()
	if set.Claim != nil {
		s.engine.breaker.report(time.Now(), healthOf(s.settling, []store.ClaimResult{{Err: r.err}}, r.took))
	}
	out.SettleTook = r.took
	if r.err != nil {
		out = s.notSettled(claim, out, set, r.err)
	}
	claim.spend(&store.Settlement{})
	return out
}

// notSettled is what became of a task whose settlement failed. One that was refused for its effect, or that found its key
// taken, goes on.
func (s *Session) notSettled(claim *Claim, out Outcome, set store.Settlement, err error) Outcome {
	var fenced *store.FencedError
	var refused *store.ClaimRefusedError
	var rejected *store.RejectedError
	switch {
	case errors.As(err, &fenced):
		return s.fenced(claim, out, fenced)
	case errors.As(err, &refused):
		return s.claimRefused(claim, refused)
	case errors.As(err, &rejected) && claim.onCommit != nil:
		return s.failedUnclaimed(claim, rejected.Err)
	case errors.As(err, &rejected):
		out.Kind, out.Result, out.Err = KindUnknown, nil, nil
		return s.failed(claim, out, rejected.Err)
	}
	what := "the task is done, but its key could not be set to say so and"
	if set.Effect != nil || set.Claim != nil {
		what = "the store did not say whether the task's effect and its completion were committed; if they were not, the task"
	}
	out.Kind = CompletionFailed
	out.Err = fmt.Errorf("%s runs again when the lease of %v is over: key %q, token %d, from %s: %s: %w",
		what, s.engine.cfg.Lease, set.Key, set.Token, cmp.Or(claim.Task.Source, "an unknown source"), set.Op, err)
	return out
}

// fenced is rule 3's other half: whoever took the key has completed the same request, so the task is done, with that
// owner's result.
func (s *Session) fenced(claim *Claim, out Outcome, err *store.FencedError) Outcome {
	out.Kind, out.Fenced, out.Result, out.Err = Fenced, true, nil, err
	if cur := &err.Current; cur.Status == store.StatusCompleted && cur.Fingerprint.Matches(claim.Task.Fingerprint) {
		out.Kind, out.Token = Replayed, cur.Token
		out.Result, out.Err = cur.StoredResult()
	}
	return out
}

func (claim *Claim) settlement(op store.SettleOp, retention time.Duration) store.Settlement {
	return store.Settlement{Op: op, Key: claim.key, Token: claim.res.Entry.Token, Owner: claim.owner, Retention: retention}
}

// settled is how a settlement went.
type settled struct {
	err  error
	took time.Duration
}

// releaseTries bounds how often a release is sent; completions and failures are sent until the session's deadline.
const releaseTries = 3

// send sends a settlement until the store has given a proper answer, or time or patience are over.
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

// settleContext bounds a settlement, or a dead letter, by the session's deadline, or by a lease if it has none.
func (s *Session) settleContext() (context.Context, context.CancelFunc) {
	if s.bounded {
		return s.settling, func() {}
	}
	return context.WithTimeout(s.settling, s.engine.cfg.Lease)
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
