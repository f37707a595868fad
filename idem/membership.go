package idem

import (
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem/store"
)

// membership is what a task has to do with ranges. The zero value is that of a task whose key is claimed.
type membership struct {
	within   *Range // the range that the task has entered
	answered bool   // its range gave the claim its result
	// The token with which its handler was called under the lease of a range, 0 if it was not. From then on its
	// key must be claimed, with a greater token.
	token int64
	// The range under whose lease its handler was called, until its key is known to have an entry.
	under *Range
}

// ByPartition reports whether ClaimRanges or LookUp gave the claim its result.
func (claim *Claim) ByPartition() bool { return claim.membership.answered }

// LeaseLost reports whether the lease of the claim's range is lost.
func (claim *Claim) LeaseLost() bool {
	return claim.membership.within != nil && claim.membership.within.isLost()
}

// Enter puts the claim into the range, or into none. It has no result yet.
func (claim *Claim) Enter(r *Range) {
	claim.membership.within, claim.membership.answered = r, false
	claim.reset()
}

// Refuse makes err the result of the claim, because the lease of its range is not held.
func (claim *Claim) Refuse(err error) {
	claim.Enter(nil)
	claim.membership.answered, claim.res.Err = true, err
}

// leastToken returns the smallest token that an absent key may get by a claim of the owner of a range: that
// of the lease, and a greater one than that with which its handler has run; 0 without a range.
func (m *membership) leastToken() int64 {
	switch {
	case m.within == nil:
		return 0
	case m.token != 0:
		return max(m.within.token, m.token+1)
	}
	return m.within.token
}

// beginUnderLease begins the call of the handler under the lease, the loss of which ends its context. It returns the
// reason if the lease is lost.
func (claim *Claim) beginUnderLease(ctx *handlerContext) error {
	r := claim.membership.within
	if err := r.beat.over(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != nil {
		return r.lost
	}
	r.running[ctx] = struct{}{}
	r.open++
	claim.membership.under, claim.membership.token = r, claim.res.Entry.Token
	return nil
}

// handlerReturned notes that a handler has returned, and returns the reason if the lease was lost meanwhile.
func (r *Range) handlerReturned(ctx *handlerContext) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, ctx)
	return r.lost
}

// claimAnswered notes that the key of a task whose settlement under the lease had no answer has an entry, by
// the answer to a claim.
func (claim *Claim) claimAnswered() {
	if claim.membership.under != nil && claim.res.Err == nil && claim.res.Entry.Status != "" {
		claim.recordStored(nil)
	}
}

// recordStored notes that the store has an entry for the key of a task, by the answer to a settlement.
// Range.open is the number of tasks whose handlers were called under the lease and that have no known entry.
func (claim *Claim) recordStored(err error) {
	r := claim.membership.under
	if r == nil || (err != nil && !errors.Is(err, store.ErrFenced)) {
		return
	}
	claim.membership.under = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
}

// fencedBy returns the answer to a settlement that found an entry under its key: as if another owner had
// taken the key (rule P4 in docs/design.md).
func fencedBy(set *store.Settlement, err error) error {
	refused, ok := errors.AsType[*store.ClaimRefusedError](err)
	if !ok || refused.Result.Entry.Status == "" {
		return err
	}
	return fmt.Errorf("%w: %w", &store.FencedError{Key: set.Key, Token: set.Token,
		Current: refused.Result.Entry}, err)
}
