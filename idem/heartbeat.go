package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// heartbeat extends a claim at every third of its lease, for as long as the handler runs, and cancels the handler's
// context when the claim is lost: because the store says so, or because the lease is over by the local monotonic clock
// and no extension came through. The local reckoning starts before the claim was sent, so it never ends later than the
// lease in the store does.
//
// It holds the handler's context, as the two live equally long.
type heartbeat struct {
	session *Session
	extend  Settlement
	handler handlerContext

	due        time.Time  // of the first beat
	next, prev *heartbeat // among those that wait for it; see firstBeats

	mu       sync.Mutex
	timer    *time.Timer // of the beats; nil until the first is due
	leaseEnd time.Time
	beating  chan struct{} // closed when the beat in progress has ended; nil if there is none
	stopped  bool
	failed   error // the first failure since the last extension
	lost     error
}

// startHeartbeat begins the heartbeat of a claim; a handler that takes under a third of the lease costs no request.
func startHeartbeat(s *Session, t *Ticket) *heartbeat {
	lease := s.engine.cfg.Lease
	h := &heartbeat{
		session: s, extend: t.settlement(OpExtend, s.engine.cfg.Retention),
		due: t.claimedAt.Add(lease / 3), leaseEnd: t.claimedAt.Add(lease),
		handler: handlerContext{Context: s.handlers, attempt: t.attempt(), transactor: s.engine.transactor},
	}
	h.extend.Lease = lease
	s.firstBeats.add(h)
	return h
}

// stop ends the heartbeat, waits for a beat in progress, and says why the claim was lost, if it was.
func (h *heartbeat) stop() error {
	if h.session.firstBeats.remove(h) {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	h.timer.Stop()
	if beating := h.beating; beating != nil {
		h.handler.end(nil) // no need to wait for the store's answer
		h.mu.Unlock()
		<-beating
		h.mu.Lock()
	}
	return h.lost
}

// begin makes the first beat, in a goroutine of its own.
func (h *heartbeat) begin() {
	h.mu.Lock() // the beat may be there before the assignment
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(0, h.beat)
}

func (h *heartbeat) beat() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped || h.handler.Err() != nil {
		return
	}
	done := make(chan struct{})
	h.beating = done
	leaseEnd := h.leaseEnd
	h.mu.Unlock()

	sent := time.Now()
	ctx, cancel := context.WithDeadline(&h.handler, leaseEnd)
	err := h.session.engine.settleOne(ctx, h.extend)
	cancel()

	h.mu.Lock()
	h.beating = nil
	close(done)
	h.after(sent, err)
}

// after decides on the answer to an extension; h.mu is held.
func (h *heartbeat) after(sent time.Time, err error) {
	lease := h.extend.Lease
	left := time.Until(h.leaseEnd)
	switch {
	case err == nil:
		h.leaseEnd, h.failed = sent.Add(lease), nil
		h.again(time.Until(sent.Add(lease / 3)))
	case errors.Is(err, ErrFenced):
		h.lose(err)
	case h.stopped || h.handler.Err() != nil:
	case left <= 0:
		h.lose(fmt.Errorf("it ended by the local clock, and could not be extended: %w", cmp.Or(h.failed, err)))
	default:
		h.failed = cmp.Or(h.failed, err)
		h.again(min(left, lease/10))
	}
}

func (h *heartbeat) again(d time.Duration) {
	if !h.stopped {
		h.timer.Reset(d)
	}
}

func (h *heartbeat) lose(err error) {
	h.lost = fmt.Errorf("%w: key %q, version %d: %w", ErrLeaseLost, h.extend.Key, h.extend.Version, err)
	h.handler.end(h.lost)
}
