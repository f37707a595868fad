package batch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem"
)

// BulkHandler handles several items in one call and returns the result of each, in the items' order. An error is treated as that
// of an idem.Handler. The context ends as a handler's does; that of each item, with its attempt, is Item.Context.
//
// The effects of one call are not one transaction: a process that dies in it leaves all of its items to be handled again.
type BulkHandler func(ctx context.Context, items []*Item) []Result

// Result is what came of an item.
type Result struct {
	Value []byte // stored, and replayed to duplicates
	Err   error
}

// RunBulk executes items in as few calls of a handler as there can be, at most idem.Config.CommitWindow items each; the handlers
// of their tasks are called for substitutes only. It returns as Run does.
//
// The first call has every item whose key was free. A key that is in flight elsewhere is waited for, and handed over in a further
// call. A key whose owner's lease is over is taken over when nothing else is under way, and its item has a call of its own.
func (s *Scheduler) RunBulk(ctx context.Context, items []*Item, handle BulkHandler) (overruns []*Item) {
	session := s.engine.Session(ctx)
	defer session.Close()
	b := &bulk{scheduler: s, session: session, items: items, handle: handle}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.run()
	}()
	giveUp, stop := giveUp(session)
	defer stop()
	select {
	case <-ended:
		return nil
	case <-giveUp:
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
	closed bool // the run was given up: no outcome is written any more; guarded by mu
}

// run processes the items round by round: in each, of every key the first item that has no outcome yet.
func (b *bulk) run() {
	for _, it := range b.items {
		it.ticket.Task = it.Task
	}
	for round := b.next(); len(round) > 0 && !b.givenUp(); round = b.next() {
		b.process(round)
	}
}

func (b *bulk) givenUp() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// next returns the items of the next round. One that makes the same request as an item that has ended shares its outcome.
func (b *bulk) next() (round []*Item) {
	type keyed struct {
		key string
		request
	}
	ended := make(map[keyed]*Item, len(b.items))
	busy := make(map[string]bool, len(b.items))
	for _, it := range b.items {
		same := keyed{it.Task.Key, requestOf(&it.Task)}
		first := ended[same]
		switch {
		case it.completed.Load():
			if !it.replaced && !it.Unprotected {
				ended[same] = it
			}
		case it.Unprotected:
			round = append(round, it)
		case first != nil:
			b.end(it, first.Outcome, true)
		case !busy[it.Task.Key]:
			busy[it.Task.Key] = true
			round = append(round, it)
		}
	}
	return round
}

// process takes the items of a round to their outcomes.
func (b *bulk) process(round []*Item) {
	b.claim(round)
	var free, waiting, suspects []*Item
	for _, it := range round {
		switch state := it.ticket.State(); {
		case it.Unprotected, state == store.Claimed:
			free = append(free, it)
		case state == store.ClaimLeaseOver:
			suspects = append(suspects, it)
		case state == store.ClaimInFlight:
			waiting = append(waiting, it)
		default:
			b.settle(it)
		}
	}
	for len(free) > 0 {
		n := min(len(free), b.scheduler.engine.Config().CommitWindow)
		b.call(free[:n])
		free = free[n:]
	}
	b.session.WaitForCommits()
	for _, it := range suspects {
		it.ticket.TakeOver = true
		b.claim([]*Item{it})
		it.ticket.TakeOver = false
		if it.ticket.State() == store.Claimed {
			b.call([]*Item{it})
			b.session.WaitForCommits()
		}
	}
	b.wait(waiting)
}

// claim claims the keys of items.
func (b *bulk) claim(items []*Item) {
	claims := make([]*idem.Claim, 0, len(items))
	for _, it := range items {
		if !it.Unprotected {
			claims = append(claims, &it.ticket)
		}
	}
	b.session.Claim(claims)
}

// wait waits until each of the items may be claimed again, all at once, or ends those for which time is over.
func (b *bulk) wait(items []*Item) {
	var all sync.WaitGroup
	for _, it := range items {
		all.Go(func() {
			if !b.session.Wait(&it.ticket) {
				b.settle(it)
			}
		})
	}
	all.Wait()
}

// settle ends an item whose handler is not to be called.
func (b *bulk) settle(it *Item) {
	b.endOrReplace(it, b.session.Run(&it.ticket))
}

// endOrReplace ends an item, or the task that takes its place where its key was refused.
func (b *bulk) endOrReplace(it *Item, out idem.Outcome) {
	if it.refuse(&out) && it.replace() {
		b.claim([]*Item{it})
		out = b.session.Run(&it.ticket)
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

// abandon gives up the items that have not ended.
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

// call calls the handler for items that are claimed, and returns when it has returned.
func (b *bulk) call(items []*Item) {
	c := &bulkCall{bulk: b, open: len(items), ready: make(chan struct{}), returned: make(chan struct{})}
	c.parts = make([]bulkPart, len(items))
	var all sync.WaitGroup
	for i, it := range items {
		c.parts[i] = bulkPart{call: c, item: it}
		it.ticket.Task.Handler = &c.parts[i]
		all.Go(func() { c.run(&c.parts[i]) })
	}
	<-c.ready
	c.invoke()
	close(c.returned)
	all.Wait()
}

// bulkCall is one call of the handler. Each of its items runs as a task of its own: that has the heartbeat, and the settlement. Its
// handler is a bulkPart, which waits for the others and then for the call.
type bulkCall struct {
	bulk     *bulk
	parts    []bulkPart
	returned chan struct{} // closed when the handler has returned

	mu    sync.Mutex
	open  int           // items that neither wait for the call nor have ended without it
	ready chan struct{} // closed when open is 0
}

// bulkPart is one item of a call.
type bulkPart struct {
	call   *bulkCall
	item   *Item
	waits  bool // for the call
	result Result
}

// run takes an item through the engine.
func (c *bulkCall) run(p *bulkPart) {
	done := func(out idem.Outcome) { c.bulk.endOrReplace(p.item, out) }
	if p.item.Unprotected {
		done(c.bulk.session.RunUnprotected(&p.item.ticket.Task))
	} else {
		c.bulk.session.RunAsync(&p.item.ticket, done)
	}
	if !p.waits {
		c.arrive()
	}
}

// arrive counts an item that waits for the call, or has ended without it.
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

// results returns the handler's results, or why it has none that can be told apart.
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
