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

// minBeatTimeout is the minimum time for the answer to an extension, for slow stores and new connections
// under a short lease.
const minBeatTimeout = 250 * time.Millisecond

// heartbeat extends a claim at every third of its lease, from before the handler begins until the settlement
// of the key has been answered. It ends the handler's context when the claim is lost: when the store refuses
// the extension, or when the lease has ended by the local monotonic clock. The local lease begins before the
// claim was sent, so it never ends later than the lease in the store.
//
// An extension has a tenth of the lease to be answered, at least minBeatTimeout, and is sent again a tenth
// later. The lease therefore outlasts one network connection that stops carrying data.
type heartbeat struct {
	session *session
	task    *Task
	owner   string
	handler handlerContext // has the key and the token too

	mu       sync.Mutex
	timer    *time.Timer // of the next beat
	leaseEnd time.Time
	beating  chan struct{}      // closed when the beat in progress has ended; nil if there is none
	cancel   context.CancelFunc // of the beat in progress
	stopped  bool
	failed   error // the first failure since the last extension
	lost     error
}

// newHeartbeat returns the heartbeat of a claim, which has not begun. A claim that is settled before the
// first beat costs no request.
func newHeartbeat(s *session, claim *claim) *heartbeat {
	return &heartbeat{
		session: s, task: &claim.Task, owner: claim.hold.owner,
		handler:  handlerContext{attempt: claim.attempt(), stored: claim.key},
		leaseEnd: claim.hold.claimedAt.Add(s.engine.cfg.Lease),
	}
}

// extension returns the extension of the claim; h.mu is held.
func (h *heartbeat) extension() store.Settlement {
	cfg := &h.session.engine.cfg
	return store.Settlement{
		Op: store.OpExtend, Key: h.handler.stored, Token: h.handler.attempt.Token, Owner: h.owner,
		Retention: cfg.Retention, Lease: cfg.Lease,
	}
}

// begin begins the heartbeat of a claim that was sent then.
func (h *heartbeat) begin(claimedAt time.Time) {
	h.mu.Lock() // the beat may run before the assignment
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(time.Until(claimedAt.Add(h.session.engine.cfg.beat())), h.beat)
}

// returned ends the handler's context, waits for a beat in progress, and returns the reason if the claim was
// lost. The heartbeat continues, because the settlement of the key may take time.
func (h *heartbeat) returned() error {
	h.handler.end(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.join()
	return h.lost
}

// stop ends the heartbeat and waits for a beat in progress.
func (h *heartbeat) stop() {
	h.handler.end(nil)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
	h.join()
}

// join waits for a beat in progress without waiting for the store's answer; h.mu is held.
func (h *heartbeat) join() {
	if beating := h.beating; beating != nil {
		h.cancel()
		h.mu.Unlock()
		<-beating
		h.mu.Lock()
	}
}

// sending reports whether a beat is in progress.
func (h *heartbeat) sending() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.beating != nil
}

// beat sends an extension and handles its answer. h.mu is not held during the request.
func (h *heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped || h.session.settling.Err() != nil {
		return
	}
	sent := time.Now()
	limit := sent.Add(max(h.session.engine.cfg.retryBeat(), minBeatTimeout))
	if limit.After(h.leaseEnd) {
		limit = h.leaseEnd
	}
	done, extend := make(chan struct{}), h.extension()
	ctx, cancel := context.WithDeadline(h.session.settling, limit)
	defer cancel()
	h.beating, h.cancel = done, cancel
	h.mu.Unlock()

	err := h.session.engine.settleOne(ctx, extend)

	h.mu.Lock()
	h.beating = nil
	close(done)
	h.after(sent, err)
}

// after handles the answer to an extension; h.mu is held.
func (h *heartbeat) after(sent time.Time, err error) {
	cfg := &h.session.engine.cfg
	left := time.Until(h.leaseEnd)
	switch {
	case err == nil:
		h.leaseEnd, h.failed = sent.Add(cfg.Lease), nil
		h.again(time.Until(sent.Add(cfg.beat())))
	case errors.Is(err, store.ErrFenced):
		h.lose(err)
	case h.stopped:
	case left <= 0:
		h.lose(fmt.Errorf("it ended by the local clock, and could not be extended: %w",
			cmp.Or(h.failed, err)))
	default:
		h.failed = cmp.Or(h.failed, err)
		h.again(min(left, cfg.retryBeat()))
	}
}

func (h *heartbeat) again(d time.Duration) {
	if !h.stopped {
		h.timer.Reset(d)
	}
}

func (h *heartbeat) lose(err error) {
	h.lost = fmt.Errorf("%w: key %q, token %d: %w", ErrLeaseLost, h.handler.stored, h.handler.attempt.Token, err)
	h.handler.end(h.lost)
	h.session.ended(observe.LeaseLost, h.task, h.handler.attempt, h.handler.stored, h.session.began(), h.lost)
}
