package idem

import (
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/idem/store"
)

// lose ends the contexts of the running handlers because the lease is lost. A nil cause is the end of the
// heartbeat.
func (r *Range) lose(cause error) {
	if cause == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = cause
	for ctx := range r.running {
		ctx.end(cause)
	}
	if r.Lost != nil {
		r.Lost()
	}
}

// enter begins the handler of a task, whose context the loss of the lease ends. It returns the reason if the
// lease is lost.
func (r *Range) enter(ctx *handlerContext) error {
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
	return nil
}

// returned reports that a handler has returned, and returns the reason if the lease was lost meanwhile.
func (r *Range) returned(ctx *handlerContext) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, ctx)
	return r.lost
}

// resolved reports that the key of a task whose settlement under the lease had no answer has an entry, by the
// answer to a claim.
func (claim *Claim) resolved() {
	if claim.ran != 0 && claim.res.Err == nil && claim.res.Entry.Status != "" {
		claim.closed(nil)
	}
}

// closed reports that the key of a task that had begun has an entry, by the answer to a settlement.
func (claim *Claim) closed(err error) {
	r := claim.lease
	if r == nil || (err != nil && !errors.Is(err, store.ErrFenced)) {
		return
	}
	claim.lease = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
}

// fencedBy returns the answer to a settlement that found an entry under its key: as if another owner had
// taken the key (rule P4 in docs/design.md).
func (claim *Claim) fencedBy(err error, token int64) error {
	var refused *store.ClaimRefusedError
	if claim.lease == nil || !errors.As(err, &refused) || refused.Result.Entry.Status == "" {
		return err
	}
	return fmt.Errorf("%w: %w", &store.FencedError{Key: claim.key, Token: token,
		Current: refused.Result.Entry}, err)
}

// ReleaseRanges releases the leases that are held in one call to the store (rule P5). A lease is not
// released, and ends by itself, if it was lost, or if the key of a task that has begun may have no entry: the
// next owner must claim the keys. The caller must have run the claims; it does not call ReleaseRanges for a
// range of which a handler has not returned.
func (s *Session) ReleaseRanges(ranges ...*Range) {
	var ss []store.Settlement
	for _, r := range ranges {
		if !r.Held() {
			continue
		}
		if r.beat.stop(); !r.releasable() {
			continue
		}
		set := r.lease.settlement(store.OpRelease, s.engine.cfg.Retention)
		set.Refund, set.Range = true, &store.Range{Till: r.till}
		ss = append(ss, set)
	}
	s.sendReleases(ss)
}

func (r *Range) releasable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open == 0 && r.lost == nil
}

// Abandon stops the extension of the lease, for a caller that must answer although a handler has not
// returned.
func (r *Range) Abandon() {
	if r.Held() {
		r.beat.stop()
	}
}
