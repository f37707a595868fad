package idem

import (
	"context"

	"github.com/idemsk/idemsk/idem/internal/machine"
)

// Stream handles the items of an endless source. It has a lane for each name as long as the lane has items.
// Lanes are handled concurrently, at most Config.Concurrency items at a time, and take turns. The items of a
// lane are handled one after another, in the order of Add.
//
// An item that is not settled is tried again after a backoff (see Config.Backoff), and not before the delay
// of RetryAfter. An item whose key is in flight elsewhere waits for it. Both block their lane only, and
// hold no slot. While the store is unavailable no handler is called, unless the engine fails open, and one
// request at a time tries the store.
//
// Items whose key is in progress in the stream wait for that item, and take its outcome if they make the same
// request.
//
// A Stream is safe for concurrent use. The caller must call Close.
type Stream struct{ driver *driver }

// Stream returns a stream. It ends when ctx ends: the contexts of handlers end then, and no handler is called
// any more. ctx should have no deadline.
//
// The stream calls done once for each item that is settled, and retry, if it is not nil, each time an item
// was tried and is not settled. Item.Outcome is the outcome. retry may set another Item.Task, with which the
// item is tried next. Both are called from any goroutine except those that call the stream's methods, never
// concurrently for the items of one lane. They must not block, nor end their goroutine, nor call Stop or
// Close.
func (s *Scheduler) Stream(ctx context.Context, done, retry func(*Item)) *Stream {
	return &Stream{driver: newDriver(s, s.engine.newSession(ctx), false, func(it *Item) {
		switch {
		case it.Outcome.Kind.Settled():
			done(it)
		case retry != nil:
			retry(it)
		}
	})}
}

// Add appends items to their lanes (Item.Lane). It returns at once: the caller bounds the number of items
// that are in progress. After Close it does nothing. One call for many items costs less than one for each.
func (st *Stream) Add(items ...*Item) {
	places := make([]*machine.Item, len(items))
	for i, it := range items {
		places[i] = it.enter()
	}
	d := st.driver
	d.mu.Lock()
	defer d.unlock()
	d.step(machine.Added{Items: places})
}

// Stop removes the items of the lanes that match, unless their handlers have begun: their claims are
// released, and the attempts are not counted. It then waits for the items that have begun, until ctx ends,
// and returns those that have not ended by then. done and retry are not called for the returned items after
// Stop has returned, nor for the items that were removed. The keys of the returned items are still settled.
// An item whose handler returns meanwhile, but which is not settled, is removed.
//
// An item that is added to a stopped lane begins a new lane, which does not wait for items of the old one
// that have begun. If it has the key of one of these, it waits for that item.
func (st *Stream) Stop(ctx context.Context, match func(lane string) bool) (running []*Item) {
	d := st.driver
	d.mu.Lock()
	e := machine.Stopped{Lanes: d.machine.Lanes(match)}
	for _, l := range e.Lanes {
		l.Ended = make(chan struct{})
	}
	e.Uncalled = d.workers.withdraw(func(it *machine.Item) bool { return it.In().Ended != nil })
	d.step(e)
	d.unlock()
	for _, l := range e.Lanes {
		select {
		case <-l.Ended:
		case <-ctx.Done():
			running = append(running, d.abandon(l)...)
		}
	}
	return running
}

// abandon returns the items of a lane that are in progress, of which nothing is reported any more.
func (d *driver) abandon(l *machine.Lane) []*Item {
	d.mu.Lock()
	running := itemsOf(l.Abandon())
	for _, it := range running {
		it.State = ItemOverrun
	}
	var quiet chan struct{}
	if l.Reporting != nil {
		quiet = make(chan struct{})
		l.Quiet = quiet
	}
	d.unlock()
	if quiet != nil {
		<-quiet
	}
	return running
}

// Close stops all lanes as Stop does, and ends the stream. The contexts of the handlers that still run have
// ended when it returns. Their keys are not settled, and stay claimed until their leases end.
func (st *Stream) Close(ctx context.Context) (running []*Item) {
	d := st.driver
	d.mu.Lock()
	d.step(machine.Closing{})
	d.unlock()
	running = st.Stop(ctx, func(string) bool { return true })
	d.close()
	d.session.Close()
	return running
}

// EachRetrying calls f once for each lane that waits, with the item that will be tried again. f must not call
// the stream's methods.
func (st *Stream) EachRetrying(f func(*Item)) {
	d := st.driver
	d.mu.Lock()
	defer d.unlock()
	for place := range d.machine.Retrying {
		f(itemOf(place))
	}
}
