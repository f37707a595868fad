package batch

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// BulkHandler handles several items in one call and returns the result of each, in the order of the items. An error is treated
// as an error of an idem.Handler. The context ends when a handler's context would end. Item.Context is the context of one item,
// with its attempt.
//
// The effects of one call are not one transaction. If the process dies during the call, all of its items are handled again.
type BulkHandler func(ctx context.Context, items []*Item) []Result

// Result is the result of one item.
type Result struct {
	Value []byte // stored, and replayed to duplicates
	Err   error
}

// RunBulk executes items in as few calls of a handler as possible, with at most idem.Config.CommitWindow items each. The
// handlers of the items' tasks are not called, except those of substitutes. RunBulk returns as Run does.
//
// The first calls get every item whose key could be claimed. An item whose key is in flight elsewhere is passed to a later
// call. A key whose owner's lease is over is taken over when nothing else is in progress, and its item gets its own call. The leases of
// ranges hold their items, as in Run.
func (s *Scheduler) RunBulk(ctx context.Context, items []*Item, handle BulkHandler, ranges ...Range) (overruns []*Item) {
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

// run processes the items in rounds. A round contains, for each key, the first item that has no outcome yet, except those whose range is in
// flight elsewhere.
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

// next returns the items of the next round. An item that makes the same request as an item that has ended shares its outcome, unless its
// task was replaced.
func (b *bulk) next() (round []*Item) {
	type keyed struct {
		key string
		request
	}
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

// process ends the items of a round.
//
// It claims the items and calls the handler in steps of the commit window, rounded down to whole requests of the store, and the
// completions of a call are answered before the next call begins. If the handler ends the process, only the items of its call are
// handled again, and the attempts of at most one further window are counted.
func (b *bulk) process(round []*Item) {
	var free, waiting, suspects []*Item
	window, request := b.scheduler.engine.Config().CommitWindow, b.scheduler.engine.BatchSize()
	window -= window % min(window, request)
	for part := range slices.Chunk(round, window) {
		b.claim(part)
		for _, it := range part {
			switch state := it.claim.State(); {
			case b.callable(it):
				free = append(free, it)
			case state == store.ClaimLeaseOver:
				suspects = append(suspects, it)
			case state == store.ClaimInFlight:
				waiting = append(waiting, it)
			default:
				b.settle(it)
			}
		}
		if len(free) >= window {
			b.call(free[:window])
			free = free[window:]
		}
	}
	if len(free) > 0 {
		b.call(free)
	}
	for _, it := range suspects {
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
	b.wait(waiting)
}

// callable reports whether the item is to be passed to the handler: its key is claimed, or the engine fails open. The handler of a task that replaced
// another one is called by settle.
func (b *bulk) callable(it *Item) bool {
	switch {
	case it.replaced:
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
		if !it.Unprotected && !it.byRange() {
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

// settle ends an item for which the bulk handler is not called. It calls the handler of a task that replaced another one.
func (b *bulk) settle(it *Item) {
	b.endOrReplace(it, b.session.Run(&it.claim))
}

// endOrReplace ends an item. If its key was refused and there is a substitute task, the item takes part in the next round with that task.
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

// call calls the handler for claimed items, and returns when their completions are answered.
func (b *bulk) call(items []*Item) {
	c := &bulkCall{bulk: b, open: len(items), ready: make(chan struct{}), returned: make(chan struct{})}
	c.parts = make([]bulkPart, len(items))
	var all sync.WaitGroup
	for i, it := range items {
		c.parts[i] = bulkPart{call: c, item: it}
		it.claim.Task.Handler = &c.parts[i]
		all.Go(func() { c.run(&c.parts[i]) })
	}
	<-c.ready
	c.invoke()
	close(c.returned)
	all.Wait()
	b.session.WaitForCommits()
}

// bulkCall is one call of the handler. Each item runs as a task of its own, with its heartbeat and its settlement. The handler
// of that task is a bulkPart, which waits for the other items and then for the call.
type bulkCall struct {
	bulk     *bulk
	parts    []bulkPart
	returned chan struct{} // closed when the handler has returned

	mu    sync.Mutex
	open  int           // items that are not waiting for the call yet, and have not ended without it
	ready chan struct{} // closed when open is 0
}

// bulkPart is one item of a call.
type bulkPart struct {
	call   *bulkCall
	item   *Item
	waits  bool // for the call
	result Result
}

// run runs one item's task.
func (c *bulkCall) run(p *bulkPart) {
	done := func(out idem.Outcome) { c.bulk.endOrReplace(p.item, out) }
	if p.item.Unprotected {
		done(c.bulk.session.RunUnprotected(&p.item.claim.Task))
	} else {
		c.bulk.session.RunAsync(&p.item.claim, done)
	}
	if !p.waits {
		c.arrive()
	}
}

// arrive counts an item that waits for the call, or that has ended without it.
func (c *bulkCall) arrive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open--; c.open == 0 {
		close(c.ready)
	}
}

// Handle implements idem.Handler.
func (p *bulkPart) Handle(ctx context.Context) ([]byte, error) {
	p.item.ctx, p.waits = ctx, true
	p.call.arrive()
	<-p.call.returned
	return p.result.Value, p.result.Err
}

// invoke calls the handler for the items that wait for it.
func (c *bulkCall) invoke() {
	var parts []*bulkPart
	var items []*Item
	for i := range c.parts {
		if p := &c.parts[i]; p.waits {
			parts, items = append(parts, p), append(items, p.item)
		}
	}
	if len(items) == 0 {
		return
	}
	results, err := c.results(items)
	for i, p := range parts {
		if p.result.Err = err; err == nil {
			p.result = results[i]
		}
	}
}

// results calls the handler and returns its results, or an error that applies to all items.
func (c *bulkCall) results(items []*Item) (results []Result, err error) {
	err = errExited // if the handler ends its goroutine
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				err = &idem.PanicError{Value: v, Stack: debug.Stack()}
			}
		}()
		results, err = c.bulk.handle(c.bulk.session.Handlers(), items), nil
		if len(results) != len(items) {
			err = fmt.Errorf("batch: the handler returned %d results for %d items: want one for each", len(results), len(items))
		}
	}()
	<-done
	return results, err
}
