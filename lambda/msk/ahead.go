package msk

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// Claims are gathered ahead of their records' turn where the store takes many in one request: for the first records of the
// units that are about to start, and for the next records of a unit that has run out. A claim is not gathered for a record
// that shares its key with another of the batch, nor past one, and never taken over from an owner whose lease is over: such
// records are claimed when it is their turn, by themselves.

// aheadRequests bounds the claims that are gathered by a unit, in full requests of the store, if it is the only one.
const aheadRequests = 10

// Claims for units about to start are sent some full requests at a time, first one and then more, so that the first units start
// when the first of them are answered. Four have as many claims as DynamoDB reads items at once.
const (
	headsRequests = 4
	headsAsked    = 6 // how many times that are sent, and not begun, at most
)

// share is how many claims a unit gathers at a time: a full request, or some if the units are few.
func (b *batch) share() int {
	size := b.consumer.engine.BatchSize()
	if size == 1 || len(b.units) == 0 {
		return 1
	}
	return max(1, aheadRequests/len(b.units)) * size
}

// mayWait is how long a claim may wait until its handler has returned. After a third of its lease it is renewed, which costs
// a request; it is not always known how long handlers take.
func (b *batch) mayWait() time.Duration { return b.consumer.engine.Config().Lease / 4 } //nolint:mnd // less than a third

// heads are the first records of units. Those of the units that come next are claimed while the units before them are at
// work. The start of units, which is one goroutine, gathers them.
type heads struct {
	next  int            // the unit that starts next
	asked int            // the number of units whose heads' claims have been sent
	sent  []asking       // for units that have not started, in their order
	times int            // how often claims have been sent
	few   bool           // a key of a dead owner was met: others may follow, and have all that is claimed given back
	under sync.WaitGroup // claims under way
}

// asking is what was sent for some of the units.
type asking struct {
	from, to int // the units: from the one to before the other
	answered chan struct{}
}

// wait waits until no claim is under way.
func (h *heads) wait() { h.under.Wait() }

// again has the heads of all units that have not started gathered anew. The caller holds all slots, so none starts.
func (h *heads) again() { h.asked, h.sent, h.few = h.next, nil, true }

// forget forgets what was sent for units before unit i alone.
func (h *heads) forget(i int) {
	for len(h.sent) > 0 && h.sent[0].to <= i {
		h.sent = h.sent[1:]
	}
}

// waitFor waits for the claims of unit i, which are the next.
func (h *heads) waitFor(i int) {
	if len(h.sent) > 0 && h.sent[0].from <= i {
		<-h.sent[0].answered
	}
}

// gatherHeads makes sure that the first records of unit i are claimed, and sends the claims of more. The caller holds a slot.
func (b *batch) gatherHeads(i int) {
	if b.ahead == 1 {
		return
	}
	h := &b.heads
	h.next = i + 1
	h.forget(i)
	switch {
	case !h.few:
		for len(h.sent) < headsAsked && b.askForHeads(i, min(headsRequests, h.times+1)) {
		}
	case b.units[i].beginsUnclaimed():
		b.askForHeads(i, 1)
	}
	h.waitFor(i)
}

// askForHeads sends the claims of units that will start while these may wait, as far as is known when unit i starts. It reports
// whether there were any.
func (b *batch) askForHeads(i, requests int) bool {
	h := &b.heads
	each := b.consumer.typical.fit(b.ahead, b.mayWait())
	from := h.asked
	var tickets []*idem.Ticket
	for limit, units := requests*b.consumer.engine.BatchSize(), b.startSoon(i); h.asked < units && len(tickets) < limit; h.asked++ {
		tickets = b.units[h.asked].collect(tickets, 0, each)
	}
	if len(tickets) == 0 {
		return false
	}
	ask := asking{from: from, to: h.asked, answered: make(chan struct{})}
	h.sent = append(h.sent, ask)
	h.times++
	h.under.Go(func() {
		defer close(ask.answered)
		b.session.Claim(tickets)
	})
	return true
}

// startSoon returns how many units will have started, and come to an end, while claims that are sent now may wait. The first
// ones find all slots free, unit i has one, and those behind it wait for units before them.
func (b *batch) startSoon(i int) int {
	slots, units := b.consumer.cfg.Concurrency, len(b.units)
	rounds := b.consumer.typical.fit(len(b.jobs), b.mayWait()) * units / len(b.jobs) // of units of average length
	return min(units, max(slots, i+1, i+slots*(rounds-1)))
}

// gather claims record i, unless that has been done, together with those behind it. One that was in flight elsewhere, or
// whose claim met a store that did not answer, is claimed again: that may be long ago. The caller holds a slot.
func (u *unit) gather(i int) {
	if j := u.jobs[i]; j.claimed {
		if j.ticket.State() != idem.ClaimInFlight && !errors.Is(j.ticket.Err(), idem.ErrStoreUnavailable) {
			return
		}
		j.claimed = false
	}
	n := u.pace.limit(i, u.batch.consumer.typical.fit(u.batch.ahead, u.batch.mayWait()), u.batch.mayWait())
	u.batch.session.Claim(u.collect(make([]*idem.Ticket, 0, n), i, n))
}

// collect adds the tickets of up to n records from record i on, and marks them as claimed.
func (u *unit) collect(tickets []*idem.Ticket, i, n int) []*idem.Ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, j := range u.jobs[i:min(i+n, len(u.jobs))] {
		if !j.toBeGathered() {
			break
		}
		j.claimed = true
		tickets = append(tickets, &j.ticket)
	}
	return tickets
}

// beginsUnclaimed reports whether the unit's first record is one whose claim is to be gathered.
func (u *unit) beginsUnclaimed() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.jobs[0].toBeGathered()
}

func (j *job) toBeGathered() bool { return j.group == nil && !j.unprotected && !j.claimed }

// giveBack gives back the claims that the unit has not begun.
func (u *unit) giveBack() {
	if u.batch.ahead > 1 {
		u.batch.session.Release(u.notBegun(nil))
	}
}

// notBegun adds the tickets of records that are claimed and not begun, and marks them as not claimed; as it does those that
// were in flight elsewhere, or whose claim failed, so that they are gathered anew.
func (u *unit) notBegun(tickets []*idem.Ticket) []*idem.Ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, j := range u.jobs {
		if j.begun || !j.claimed {
			continue
		}
		switch j.ticket.State() {
		case idem.Claimed:
			tickets = append(tickets, &j.ticket)
			j.claimed = false
		case idem.ClaimInFlight, idem.ClaimUnknown:
			j.claimed = false
		case idem.ClaimLeaseOver, idem.ClaimCompleted, idem.ClaimFailed:
		}
	}
	return tickets
}

// empty gives back all claims that no unit has begun, and waits for the completions under way. The caller holds all slots.
func (b *batch) empty() {
	b.heads.wait()
	if b.giveBack(func(*unit) bool { return true }) {
		b.heads.again()
	}
	b.session.WaitForCommits()
}

// giveBack gives back the claims that have not been begun of some of the units, none of which may be gathering. It reports
// whether there were any.
func (b *batch) giveBack(of func(*unit) bool) bool {
	if b.ahead == 1 {
		return false
	}
	var tickets []*idem.Ticket
	for i := range b.units {
		if u := &b.units[i]; of(u) {
			tickets = u.notBegun(tickets)
		}
	}
	b.session.Release(tickets)
	return len(tickets) > 0
}

// typical is how long records have taken of late, from their turn to the return of their handler. The zero value knows
// nothing. It is safe for concurrent use.
type typical struct{ ns atomic.Int64 }

// note tells of a record. One of two that are told at once may be lost.
func (t *typical) note(took time.Duration) {
	last, ns := t.ns.Load(), max(1, int64(took))
	if last == 0 {
		last = ns
	}
	t.ns.Store(last + (ns-last)/8) //nolint:mnd // smooth enough, and soon enough
}

// fit returns how many of n records will begin within the time given, one after another: one if nothing is known.
func (t *typical) fit(n int, within time.Duration) int {
	if ns := t.ns.Load(); ns > 0 {
		return max(1, int(min(int64(n), int64(within)/ns)))
	}
	return 1
}

// pace is how fast a unit gets on. Claims that wait longer than a third of their lease cost a renewal each, so a slow unit
// gathers fewer.
type pace struct {
	since time.Time // of the last gathering, or the unit's start; zero if it is not to be known
	at    int       // the record then
}

// limit returns how many of up to n claims, from record i on, will begin within the time given, by what the last ones took.
func (p *pace) limit(i, n int, within time.Duration) int {
	if n == 1 {
		return 1
	}
	now := time.Now()
	if took := now.Sub(p.since); !p.since.IsZero() && took > 0 {
		n = min(n, max(1, int(within*time.Duration(i-p.at)/took)))
	}
	p.since, p.at = now, i
	return n
}
