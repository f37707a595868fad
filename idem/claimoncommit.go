package idem

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// claimLater answers the claims of tickets without the store, which gets them with their completions. While the breaker is
// open it refuses them, so that no handler runs for nothing.
func (s *Session) claimLater(tickets []*Claim) (others []*Claim) {
	now := time.Now()
	others = tickets[:0:0]
	for _, t := range tickets {
		if t.leased {
			others = append(others, t)
			continue
		}
		req, ok := s.engine.request(t, now)
		if !ok {
			continue
		}
		t.took = 0
		if err := s.engine.breaker.allow(now); err != nil {
			t.res = store.ClaimResult{Err: unavailableStore(err)}
			continue
		}
		t.onCommit = &req
		t.res = store.ClaimResult{State: store.Claimed, Entry: store.Fresh(&req, now)}
	}
	return others
}

// claimAtLast claims the key of a ticket whose claim was left to its completion, waiting while it is in flight elsewhere: the
// handler failed, which is to be recorded, or the completion found the key taken. The breaker has allowed its claim before.
func (s *Session) claimAtLast(t *Claim) {
	t.onCommit, t.leased, t.res, t.owner = nil, true, store.ClaimResult{}, ""
	tickets := [1]*Claim{t}
	for {
		s.claim(tickets[:], true)
		switch {
		case t.res.State == store.ClaimLeaseOver && !t.TakeOver:
			t.TakeOver = true
		case !s.Wait(t):
			return
		}
	}
}

// failedUnclaimed settles what a handler failed at whose key is not claimed yet. If it can't be claimed, what stands in the
// way counts.
func (s *Session) failedUnclaimed(t *Claim, err error) Outcome {
	s.claimAtLast(t)
	out := t.outcome()
	if t.res.State != store.Claimed {
		return out
	}
	s.keep(t)
	return s.failed(t, out, err)
}

// claimRefused goes on from what the completion found under its key. Where that is not final the key is claimed, and the
// handler runs again: what it enlisted was discarded.
func (s *Session) claimRefused(t *Claim, refused *store.ClaimRefusedError) Outcome {
	res := refused.Result
	final := res.State == store.ClaimCompleted || res.State == store.ClaimFailed || errors.Is(res.Err, store.ErrFingerprintMismatch) || errors.Is(res.Err, store.ErrForeignEntry)
	if final {
		t.onCommit, t.res = nil, res
		return t.outcome()
	}
	s.claimAtLast(t)
	return s.Run(t)
}
