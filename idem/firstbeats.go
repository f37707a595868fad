package idem

import (
	"sync"
	"time"
)

// firstBeats begins the heartbeats of a session when their first beat is due, all by one timer: most handlers return
// before that, and to start and stop a timer for each would cost more than the rest of an attempt.
type firstBeats struct {
	mu      sync.Mutex
	waiting *heartbeat // linked by next and prev
	timer   *time.Timer
	fires   time.Time // when the timer does; zero if it is not set
}

func (f *firstBeats) add(h *heartbeat) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.next = f.waiting; h.next != nil {
		h.next.prev = h
	}
	f.waiting = h
	f.wakeAt(h.due)
}

// remove takes a heartbeat out; false if it has begun.
func (f *firstBeats) remove(h *heartbeat) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h != f.waiting && h.prev == nil {
		return false
	}
	f.unlink(h)
	return true
}

func (f *firstBeats) unlink(h *heartbeat) {
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		f.waiting = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	}
	h.next, h.prev = nil, nil
}

// wakeAt sees to it that the timer fires at t at the latest. It is left set when what it was set for is gone: then it
// finds nothing to do.
func (f *firstBeats) wakeAt(t time.Time) {
	if !f.fires.IsZero() && !t.Before(f.fires) {
		return
	}
	f.fires = t
	if f.timer == nil {
		f.timer = time.AfterFunc(time.Until(t), f.wake)
		return
	}
	f.timer.Reset(time.Until(t))
}

// wake begins what is due, and sets the timer for the rest.
func (f *firstBeats) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fires = time.Time{}
	now := time.Now()
	for h := f.waiting; h != nil; {
		next := h.next
		if h.due.After(now) {
			f.wakeAt(h.due)
		} else {
			f.unlink(h)
			h.begin()
		}
		h = next
	}
}

func (f *firstBeats) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
}
