package idem

import (
	"errors"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// maxPresentKeys is the maximum number of keys that an engine remembers.
const maxPresentKeys = 1000

// presentKeys are keys under which a completion or a failure of this process found or left an entry: a completion that claims such a key
// would be refused, and its handler would have run in vain. They are claimed first. Without it, a handler that takes more than half of the
// time of its session could never complete a key that has failed once. A process that knows too many forgets them, which costs calls only.
type presentKeys struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

func (p *presentKeys) add(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil || len(p.keys) >= maxPresentKeys {
		p.keys = make(map[string]struct{})
	}
	p.keys[key] = struct{}{}
}

func (p *presentKeys) has(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, found := p.keys[key]
	return found
}

// claimLater marks claims as held without a request, because their completions will claim the keys (Config.ClaimOnCommit). It
// returns the claims that must be sent now. While the breaker is open it refuses the claims, so that no handler runs in vain.
func (s *Session) claimLater(claims []*Claim) (others []*Claim) {
	now := time.Now()
	others = claims[:0:0]
	for _, claim := range claims {
		if claim.leased || s.engine.present.has(claim.Task.Key) {
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
		claim.insert = &req
		claim.res = store.ClaimResult{State: store.Claimed, Entry: store.Fresh(&req, now)}
	}
	return others
}

// claimNow claims the key of a claim that was left to its completion, and waits while the key is in flight elsewhere. It is
// called when the handler failed, so that the failure can be recorded, or when the completion found an entry under the key. The
// breaker has already allowed the claim.
func (s *Session) claimNow(claim *Claim) {
	s.engine.present.add(claim.Task.Key)
	claim.insert, claim.leased, claim.res, claim.owner = nil, true, store.ClaimResult{}, ""
	claims := [1]*Claim{claim}
	for {
		s.claim(claims[:], true)
		switch {
		case claim.res.State == store.ClaimLeaseOver && !claim.TakeOver:
			claim.TakeOver = true
		case !s.Wait(claim):
			return
		}
	}
}

// failedUnclaimed claims the key of a task whose handler failed, and settles it by the error. If the key can't be claimed, it
// returns the outcome of that claim.
func (s *Session) failedUnclaimed(claim *Claim, err error) Outcome {
	s.claimNow(claim)
	out := claim.outcome()
	if claim.res.State != store.Claimed {
		return out
	}
	s.keep(claim)
	return s.failed(claim, out, err)
}

// claimRefused handles the entry that the completion found under its key. If the entry is final, its outcome is returned.
// Otherwise the key is claimed and the handler runs again: the effect that it enlisted was discarded.
func (s *Session) claimRefused(claim *Claim, refused *store.ClaimRefusedError) Outcome {
	res := refused.Result
	final := res.State == store.ClaimCompleted || res.State == store.ClaimFailed ||
		errors.Is(res.Err, store.ErrFingerprintMismatch) || errors.Is(res.Err, store.ErrForeignEntry)
	if final {
		claim.insert, claim.res = nil, res
		return claim.outcome()
	}
	s.claimNow(claim)
	return s.Run(claim)
}
