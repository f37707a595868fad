package batch

import (
	"context"
	"sync"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// BulkHandler handles several items in one call and returns the result of each, in the order of the items.
// The error of a result is treated as an error of an idem.Handler. The context ends when a handler's context
// would end. Item.Context is the context of one item, with its attempt.
//
// An error of the call, a panic, or another number of results means that the call failed as a whole. That is
// no evidence against one of its items: the handler is called again for each of them alone, in their order,
// and only a failure of such a call counts as an attempt. So the effect of an item can happen twice if a call
// fails after it, unless it is enlisted in a transaction of the store (store.EffectFrom). idem.Unavailable
// releases all items.
//
// The effects of one call are not one transaction. If the process dies during the call, all of its items are
// handled again.
type BulkHandler func(ctx context.Context, items []*Item) ([]Result, error)

// Result is the result of one item.
type Result struct {
	Value []byte // stored, and replayed to duplicates
	Err   error
}

// RunBulk executes items in as few calls of a handler as possible, with at most idem.Config.CommitWindow
// items each, and fewer after a call that failed as a whole. The handlers of the items' tasks are not called,
// except those of substitutes and of rejected tasks. RunBulk returns as Run does.
//
// The first calls get every item whose key could be claimed. An item whose key is in flight elsewhere is
// passed to a later call. An item whose last attempt failed gets its own call. A key whose owner's lease is
// over is taken over when nothing else is in progress, and its item gets its own call. The leases of ranges
// hold their items, as in Run.
func (s *Scheduler) RunBulk(ctx context.Context, items []*Item, handle BulkHandler,
	ranges ...Range) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	b := &bulk{scheduler: s, session: session, items: items, handle: handle}
	leases := b.prepare(ranges)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.run()
	}()
	giveUp, stop := giveUp(session)
	defer stop()
	select {
	case <-ended:
		leases.release()
		return nil
	case <-giveUp:
		leases.abandon()
		return b.abandon()
	}
}

// bulk is a run of RunBulk.
type bulk struct {
	scheduler *Scheduler
	session   *idem.Session
	items     []*Item
	handle    BulkHandler

	mu     sync.Mutex
	closed bool // the run was abandoned: no outcome is written any more; guarded by mu
}

// prepare claims the leases of ranges.
func (b *bulk) prepare(ranges []Range) leases {
	times := make(map[string]int, len(b.items))
	for _, it := range b.items {
		it.claim.Task = it.Task
		times[it.Task.Key]++
	}
	return claimRanges(b.session, ranges, func(it *Item) bool { return times[it.Task.Key] > 1 })
}

// run processes the items in rounds. A round contains, for each key, the first item that has no outcome yet,
// except those whose range is in flight elsewhere.
func (b *bulk) run() {
	for round := b.next(); len(round) > 0 && !b.abandoned(); round = b.next() {
		b.process(round)
	}
}

func (b *bulk) abandoned() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// next returns the items of the next round. An item that makes the same request as an item that has ended
// shares its outcome, unless its task was replaced.
func (b *bulk) next() (round []*Item) {
	type keyed struct {
		key string
		request
	}
	b.resume()
	ended := make(map[keyed]*Item, len(b.items))
	busy := make(map[string]bool, len(b.items))
	var unready *held
	for _, it := range b.items {
		same := keyed{it.Task.Key, requestOf(&it.Task)}
		key := it.claim.Task.Key
		first := ended[same]
		switch {
		case it.completed.Load():
			if !it.replaced && !it.Unprotected {
				ended[same] = it
			}
		case !it.ready():
			unready = it.within
		case it.Unprotected:
			round = append(round, it)
		case first != nil && !it.replaced:
			b.end(it, first.Outcome, true)
		case !busy[key]:
			busy[key] = true
			round = append(round, it)
		}
	}
	if len(round) == 0 && unready != nil {
		<-unready.ready
		return b.next()
	}
	return round
}

// resume lets the items take part in the next round that an outage of what the handler needs has held back,
// if it has ended.
func (b *bulk) resume() {
	if _, down := b.scheduler.engine.HandlerDown(); down {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if it.heldBack() && !b.closed {
			it.reset()
		}
	}
}

// process ends the items of a round.
//
// It claims the items and calls the handler in steps of callSize, and the completions of a call are answered
// before the next call begins. If the handler ends the process, only the items of its call are handled again,
// and the attempts of at most one further window are counted.
func (b *bulk) process(round []*Item) {
	var free, waiting, suspects []*Item
	for len(round) > 0 {
		if err := b.session.Handlers().Err(); err != nil {
			b.runOut(round, err)
			break
		}
		part := round[:min(len(round), b.callSize())]
		round = round[len(part):]
		b.claim(part)
		var others []*Item
		for _, it := range part {
			switch state := it.claim.State(); {
			case b.callable(it) && it.claim.FailedBefore():
				b.call([]*Item{it})
			case b.callable(it):
				free = append(free, it)
			case state == store.ClaimLeaseOver:
				suspects = append(suspects, it)
			case state == store.ClaimInFlight:
				waiting = append(waiting, it)
			default:
				others = append(others, it)
			}
		}
		b.settleAll(others)
		free = b.callAll(free, false)
	}
	b.callAll(free, true)
	b.takeOver(suspects)
	b.wait(waiting)
}

// runOut ends items for which there is no time left.
func (b *bulk) runOut(items []*Item, err error) {
	for _, it := range items {
		if it.waits() {
			b.settle(it) // its outcome says for what
			continue
		}
		b.end(it, notStarted(err), false)
	}
}

// callAll calls the handler for items, as many at a time as callSize says, and returns those that are left
// for a full call. There are none after the last part of a round.
func (b *bulk) callAll(items []*Item, last bool) (left []*Item) {
	for len(items) > 0 {
		size := b.callSize()
		if len(items) < size && !last {
			return items
		}
		size = min(size, len(items))
		b.call(items[:size])
		items = items[size:]
	}
	return nil
}

// callSize returns how many items the next call gets at most: the commit window, rounded down to whole
// requests of the store, or fewer after a call that failed as a whole.
func (b *bulk) callSize() int {
	window, request := b.scheduler.engine.Config().CommitWindow, b.scheduler.engine.BatchSize()
	return b.scheduler.calls.size(window - window%min(window, request))
}

// takeOver takes over the keys of owners that may have died, one at a time, and calls the handler for each
// alone.
func (b *bulk) takeOver(suspects []*Item) {
	for i, it := range suspects {
		if err := b.session.Handlers().Err(); err != nil { // a claim could not be released in time
			b.runOut(suspects[i:], err)
			return
		}
		it.claim.TakeOver = true
		b.claim([]*Item{it})
		it.claim.TakeOver = false
		switch {
		case b.callable(it):
			b.call([]*Item{it})
		case it.claim.State() == store.Claimed:
			b.settle(it)
		}
	}
}

// callable reports whether the item is to be passed to the handler: its key is claimed, or the engine fails
// open. The handlers of a task that replaced another one and of a rejected task are called by settle.
func (b *bulk) callable(it *Item) bool {
	switch {
	case it.replaced, it.claim.Task.Rejected:
		return false
	case it.Unprotected, it.claim.State() == store.Claimed:
		return true
	}
	return b.scheduler.engine.FailsOpen(it.claim.Err())
}

// claim claims the keys of items.
func (b *bulk) claim(items []*Item) {
	claims := make([]*idem.Claim, 0, len(items))
	for _, it := range items {
		if !it.Unprotected && !it.byPartition() {
			claims = append(claims, &it.claim)
		}
	}
	b.session.Claim(claims)
}

// wait waits until all of the items can be claimed again, and ends those whose time is over.
func (b *bulk) wait(items []*Item) {
	var all sync.WaitGroup
	for _, it := range items {
		all.Go(func() {
			if !b.session.Wait(&it.claim) {
				b.settle(it)
			}
		})
	}
	all.Wait()
}

// settleAll ends items for which the bulk handler is not called, all at once.
func (b *bulk) settleAll(items []*Item) {
	var all sync.WaitGroup
	for _, it := range items {
		all.Go(func() { b.settle(it) })
	}
	all.Wait()
}

// settle ends an item for which the bulk handler is not called. It calls the handler of a rejected task, and
// of one that replaced another.
func (b *bulk) settle(it *Item) {
	if it.Unprotected {
		b.end(it, b.session.RunUnprotected(&it.claim.Task), false)
		return
	}
	b.endOrReplace(it, b.session.Run(&it.claim))
}

// endOrReplace ends an item. If its key was refused and there is a substitute task, the item takes part in
// the next round with that task.
func (b *bulk) endOrReplace(it *Item, out idem.Outcome) {
	if it.refuse(&out) && it.replace() {
		return
	}
	b.end(it, out, false)
}

func (b *bulk) end(it *Item, out idem.Outcome, duplicate bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	it.Outcome, it.Duplicate = out, duplicate
	it.completed.Store(true)
}

// abandon marks the items that have not ended as overruns, and returns them.
func (b *bulk) abandon() (overruns []*Item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, it := range b.items {
		if !it.completed.Load() {
			it.State = Overrun
			overruns = append(overruns, it)
		}
	}
	return overruns
}
