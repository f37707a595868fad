package idem

import (
	"errors"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// claimLater answers the claims of tickets without the store, which gets them with their completions. While the breaker is
// open it refuses them, so that no handler runs for nothing.
func (s *Session) claimLater(claims []*Claim) (others []*Claim) {
	now := time.Now()
	others = claims[:0:0]
	for _, claim := range claims {
		if claim.leased {
			others = append(others, claim)
			continue
		}
		req, ok := s.engine.request(claim, now)
		if !ok {
			continue
		}
		claim.took = 0
		if err := s.engine.breaker.allow(now); err != nil {
			claim.res = store.ClaimResult{Err: unavailableStore(err)}
			continue
		}
		claim.onCommit = &req
		claim.res = store.ClaimResult{State: store.Claimed, Entry: store.Fresh(&req, now)}
	}
	return others
}

// claimAtLast claims the key of a ticket whose claim was left to its completion, waiting while it is in flight elsewhere: the
// handler failed, which is to be recorded, or the completion found the key taken. The breaker has allowed its claim before.
func (s *Session) claimAtLast(claim *Claim) {
	claim.onCommit, claim.leased, claim.res, claim.owner = nil, true, store.ClaimResult{}, ""
	tickets := [1]*Claim{claim}
	for {
		s.claim(tickets[:], true)
		switch {
		case claim.res.State == store.ClaimLeaseOver && !claim.TakeOver:
			claim.TakeOver = true
		case !s.Wait(claim):
			return
		}
	}
}

// failedUnclaimed settles what a handler failed at whose key is not claimed yet. If it can't be claimed, what stands in the
// way counts.
func (s *Session) failedUnclaimed(claim *Claim, err error) Outcome {
	s.claimAtLast(claim)
	out := claim.outcome()
	if claim.res.State != store.Claimed {
		return out
	}
	s.keep(claim)
	return s.failed(claim, out, err)
}

// claimRefused goes on from what the completion found under its key. Where that is not final the key is claimed, and the
// handler runs again: what it enlisted was discarded.
func (s *Session) claimRefused(claim *Claim, refused *store.ClaimRefusedError) Outcome {
	res := refused.Result
	final := res.State == store.ClaimCompleted || res.State == store.ClaimFailed ||
		errors.Is(res.Err, store.ErrFingerprintMismatch) || errors.Is(res.Err, store.ErrForeignEntry)
	if final {
		claim.onCommit, claim.res = nil, res
		return claim.outcome()
	}
	s.claimAtLast(claim)
	return s.Run(claim)
}
