package idem

import (
	"errors"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// hold is what keeps a task's key from other owners while its handler runs. The heartbeat of a claimed key
// goes on until the settlement is answered, also if the claim was reset before.
type hold struct {
	held bool // the key is claimed
	// The owner and the time of the last claim, also of one without an answer. The time is the local
	// monotonic one before the claim was sent: the lease ends no earlier than a lease after it.
	owner     string
	claimedAt time.Time
	// a request of this owner could take the key from an owner whose lease had ended
	takesOver bool

	beat *heartbeat // from before the handler begins until the key is settled
}

// reset removes the result of a claim, so that the task can be claimed again by a new owner.
func (claim *claim) reset() {
	claim.res = store.ClaimResult{}
	claim.hold.held, claim.hold.owner = false, ""
	claim.committed = nil
}

// settlement returns a settlement of the claim's key.
func (claim *claim) settlement(op store.SettleOp, retention time.Duration) store.Settlement {
	return store.Settlement{
		Op: op, Key: claim.key, Token: claim.res.Entry.Token, Owner: claim.hold.owner, Retention: retention,
	}
}

// completion returns the completion of the claim's key. A result that is too large is not stored.
func (claim *claim) completion(cfg *Config, result []byte, omitted int) store.Settlement {
	set := claim.settlement(store.OpComplete, cfg.Retention)
	if set.Result, set.ResultOmitted = result, omitted; len(result) > max(0, cfg.MaxResult) {
		set.Result, set.ResultOmitted = nil, len(result)
	}
	return set
}

// startHeartbeat starts the heartbeat of a claimed key and the context of its handler. It lasts until
// stopHeartbeat.
func (claim *claim) startHeartbeat(s *session) {
	claim.hold.beat = newHeartbeat(s, claim)
	claim.hold.beat.handler.begin(s)
	claim.hold.beat.begin(claim.hold.claimedAt)
}

// beats reports whether an extension of the claim is in progress.
func (claim *claim) beats() bool {
	return claim.hold.beat != nil && claim.hold.beat.sending()
}

// stopHeartbeat stops the heartbeat of a claim, if it has one.
func (claim *claim) stopHeartbeat() {
	if h := &claim.hold; h.beat != nil {
		h.beat.stop()
		h.beat = nil
	}
}

// needsRenewal reports whether a claim is older than the interval of heartbeats.
func (claim *claim) needsRenewal(cfg *Config) bool {
	return time.Since(claim.hold.claimedAt) >= cfg.beat()
}

// renew extends a claim that is older than the interval of heartbeats before its handler begins: another
// owner may have taken the key, and a running handler would learn it too late. It reports whether the handler
// must not begin, because the claim is lost, or because it is not known to be held.
func (x *execution) renew() (refused bool) {
	claim, cfg := x.claim, x.cfg()
	if !claim.needsRenewal(cfg) {
		return false
	}
	set := claim.settlement(store.OpExtend, cfg.Retention)
	set.Lease = cfg.Lease
	sent := time.Now()
	err := x.session.engine.settleOne(x.session.handlers, set)
	var fenced *store.FencedError
	if errors.As(err, &fenced) {
		x.fenced(fenced)
		return true
	}
	if err == nil {
		claim.hold.claimedAt = sent
	}
	if time.Since(claim.hold.claimedAt) < cfg.Lease {
		return false // the claim is held, or the heartbeat will find that it is not
	}
	x.out.Kind = StoreDown
	if err != nil {
		x.out.Err = fmt.Errorf("%w: the lease ended before the handler began, and could not be extended: %w",
			ErrStoreUnavailable, err)
		return true
	}
	x.out.Err = fmt.Errorf("%w: the lease was extended before the handler began, but the answer took %v, "+
		"longer than the lease of %v", ErrStoreUnavailable, time.Since(sent).Round(time.Millisecond),
		cfg.Lease)
	x.refund(nil, 0)
	return true
}
