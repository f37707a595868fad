package idem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// minBeatTimeout leaves a store that is slow, or makes a connection, the time for an answer under a short lease.
const minBeatTimeout = 250 * time.Millisecond

// heartbeat extends a claim at every third of its lease, from before the handler begins until the settlement of the key has
// an answer. It cancels the handler's context when the claim is lost: because the store says so, or because the lease is over
// by the local monotonic clock and no extension came through. The local reckoning starts before the claim was sent, so it
// never ends later than the lease in the store does.
//
// An extension is given a tenth of the lease to be answered, at least minBeatTimeout, and is sent again a tenth later: one that
// meets with a network that fell silent is made up for while the lease lasts.
//
// It holds the handler's context.
type heartbeat struct {
	session *Session
	extend  store.Settlement
	handler handlerContext

	due        time.Time  // of the first beat
	next, prev *heartbeat // among those that wait for it; see firstBeats

	mu       sync.Mutex
	timer    *time.Timer // of the beats; nil until the first is due
	leaseEnd time.Time
	beating  chan struct{}      // closed when the beat in progress has ended; nil if there is none
	cancel   context.CancelFunc // of the beat in progress
	stopped  bool
	failed   error // the first failure since the last extension
	lost     error
}

// keep begins the heartbeat of a claim; a task that is settled within a third of the lease costs no request. It lasts until
// the ticket is let go.
func (s *Session) keep(claim *Claim) {
	lease := s.engine.cfg.Lease
	h := &heartbeat{
		session: s, extend: claim.settlement(store.OpExtend, s.engine.cfg.Retention),
		due: claim.claimedAt.Add(s.engine.cfg.beat()), leaseEnd: claim.claimedAt.Add(lease),
		handler: handlerContext{Context: s.handlers, attempt: claim.attempt(), transactor: s.engine.transactor},
	}
	h.extend.Lease = lease
	claim.beat = h
	s.firstBeats.add(h)
}

// letGo ends the heartbeat of a ticket, if it has one.
func (claim *Claim) letGo() {
	if claim.beat != nil {
		claim.beat.stop()
		claim.beat = nil
	}
}

// returned ends the handler's context, waits for a beat in progress, and says why the claim was lost, if it was. The lease is
// extended further: it may take a while until the settlement of the key has an answer.
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
	if h.session.firstBeats.remove(h) {
		return
	}
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

// begin makes the first beat, in a goroutine of its own.
func (h *heartbeat) begin() {
	h.mu.Lock() // the beat may be there before the assignment
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(0, h.beat)
}

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
	done := make(chan struct{})
	ctx, cancel := context.WithDeadline(h.session.settling, limit)
	defer cancel()
	h.beating, h.cancel = done, cancel
	h.mu.Unlock()

	err := h.session.engine.settleOne(ctx, h.extend)

	h.mu.Lock()
	h.beating = nil
	close(done)
	h.after(sent, err)
}

// after decides on the answer to an extension; h.mu is held.
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
		h.lose(fmt.Errorf("it ended by the local clock, and could not be extended: %w", cmp.Or(h.failed, err)))
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
	h.lost = fmt.Errorf("%w: key %q, token %d: %w", ErrLeaseLost, h.extend.Key, h.extend.Token, err)
	h.handler.end(h.lost)
}
