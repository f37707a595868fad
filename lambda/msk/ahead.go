package msk

import (
	"errors"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// Claims are gathered ahead of their records' turn where the store takes many in one request: for the first records of the
// units that are about to start, and for the next records of a unit that has run out. A claim is not gathered for a record
// that shares its key with another of the batch, nor past one, and never taken over from an owner whose lease is over: such
// records are claimed when it is their turn, by themselves.

// aheadRequests bounds the claims that are gathered for units about to start, in full requests of the store. As many may be
// under way for the units behind them.
const aheadRequests = 10

// share is how many claims a unit gathers at a time: a full request, or some if the units are few.
func (b *batch) share() int {
	size := b.consumer.engine.BatchSize()
	if size == 1 || len(b.units) == 0 {
		return 1
	}
	return max(1, aheadRequests/len(b.units)) * size
}

// heads are the first records of units. Those of the units that come next are claimed while the units before them are at
// work. The start of units, which is one goroutine, gathers them.
type heads struct {
	asked int            // the number of units whose heads' claims have been sent
	known int            // the number of those that are answered
	under sync.WaitGroup // claims under way
}

// wait waits until no claim is under way.
func (h *heads) wait() { h.under.Wait() }

// gatherHeads makes sure that the first records of unit i are claimed, and sends the claims of more. The caller holds a slot.
func (b *batch) gatherHeads(i int) {
	if i < b.heads.known || b.ahead == 1 {
		return
	}
	if b.heads.asked <= i {
		b.askForHeads()
	}
	b.heads.wait()
	b.heads.known = b.heads.asked
	b.askForHeads()
}

func (b *batch) askForHeads() {
	limit := aheadRequests * b.consumer.engine.BatchSize()
	var tickets []*idem.Ticket
	for ; b.heads.asked < len(b.units) && len(tickets) < limit; b.heads.asked++ {
		tickets = b.units[b.heads.asked].collect(tickets, 0, b.ahead)
	}
	if len(tickets) > 0 {
		b.heads.under.Go(func() { b.session.Claim(tickets) })
	}
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
	n := u.pace.limit(i, u.batch.ahead, u.batch.consumer.engine.Config().Lease/3)
	u.batch.session.Claim(u.collect(make([]*idem.Ticket, 0, n), i, n))
}

// collect adds the tickets of up to n records from record i on, and marks them as claimed.
func (u *unit) collect(tickets []*idem.Ticket, i, n int) []*idem.Ticket {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, j := range u.jobs[i:min(i+n, len(u.jobs))] {
		if j.group != nil || j.unprotected || j.claimed {
			break
		}
		j.claimed = true
		tickets = append(tickets, &j.ticket)
	}
	return tickets
}

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
	b.giveBack(func(*unit) bool { return true })
	b.session.WaitForCommits()
}

// giveBack gives back the claims that have not been begun of some of the units, none of which may be gathering.
func (b *batch) giveBack(of func(*unit) bool) {
	if b.ahead == 1 {
		return
	}
	var tickets []*idem.Ticket
	for i := range b.units {
		if u := &b.units[i]; of(u) {
			tickets = u.notBegun(tickets)
		}
	}
	b.session.Release(tickets)
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
