package idem

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// commits sends the completions of a session in groups (group commit). A completion is sent at once if no
// request is in progress. While n are, completions are gathered until they are n eighths of a full request, so
// that a completion waits less while there are few. They are gathered until they fill a request or none is in
// progress without Engine.partialRequests, in a session with a deadline, whose caller waits for all of them, and
// if one commits an effect: the store commits effects on one item that are sent together one after another,
// and those of two requests conflict. A request is in progress until it has returned or has taken longer than
// Config.patience. The completions of session.Return are sent at once.
type commits struct {
	session *session
	// window holds an element for each task whose handler may have run and whose completion is not confirmed.
	// It is nil if the store is no Batcher: then completions are not grouped.
	window chan struct{}
	waiter sync.Mutex // see wait

	mu      sync.Mutex
	waiting []commit
	sending int  // requests in progress, except those that are being retried or have taken too long
	last    bool // no more completions will follow
}

// commit is a completion that is not confirmed yet.
type commit struct {
	set    store.Settlement
	handed time.Time
	err    error // the store's last answer
	done   func(set store.Settlement, answer settlementAnswer, more bool)
}

// group is the completions of a request that have no definite answer.
type group struct {
	commits []commit
	sets    []store.Settlement // of the request
}

// groups holds the groups of requests that have ended.
var groups = sync.Pool{New: func() any { return new(group) }}

// enter waits for a place in the window; false if completions are not gathered, or the context ends first.
// The caller must release the place with leave, or pass it to add.
func (c *commits) enter(ctx context.Context) bool {
	if c.window == nil {
		return false
	}
	select {
	case c.window <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *commits) leave() { <-c.window }

// add queues a completion. It takes over the completion's place in the window.
func (c *commits) add(one commit) {
	one.handed = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, one)
	c.sendOn(c.last)
}

// addTogether queues completions that no others follow soon, and takes over their places in the window.
func (c *commits) addTogether(all []commit) {
	if len(all) == 0 {
		return
	}
	now := time.Now()
	for i := range all {
		all[i].handed = now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, all...)
	c.sendOn(true)
}

// addAndWait queues a completion and waits for its result.
func (c *commits) addAndWait(set store.Settlement) settlementAnswer {
	landed := make(chan settlementAnswer, 1)
	c.add(commit{set: set, done: func(_ store.Settlement, answer settlementAnswer, _ bool) { landed <- answer }})
	return <-landed
}

// sendOn starts the requests that can be sent now, and all if nothing is to wait; c.mu is held.
func (c *commits) sendOn(all bool) {
	for {
		group := c.next(all)
		if group == nil {
			return
		}
		c.sending++
		go c.send(group)
	}
}

// next removes the next group to send: a full one, or all completions if there are enough of them or if nothing
// is to wait. It returns nil if there is none. c.mu is held.
func (c *commits) next(all bool) *group {
	size := c.session.engine.batch
	if n := len(c.waiting); n == 0 || n < size && !all && !c.mayBePartial(n) {
		return nil
	}
	g, _ := groups.Get().(*group)
	n := min(size, len(c.waiting))
	g.commits = append(g.commits, c.waiting[:n]...)
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return g
}

// mayBePartial reports whether n completions, which do not fill a request, may be sent beside those in progress.
func (c *commits) mayBePartial(n int) bool {
	effect := func(one commit) bool { return one.set.Effect != nil }
	switch engine := c.session.engine; {
	case c.sending == 0:
		return true
	case c.session.bounded, slices.ContainsFunc(c.waiting, effect):
		return false
	default:
		return n*engine.partialRequests() >= c.sending*engine.batch
	}
}

// send sends a group, and retries those completions that got no definite answer until the session's time
// ends. Later groups do not wait for the retries.
func (c *commits) send(g *group) {
	ctx, cancel := c.session.settleContext()
	defer cancel()
	pass := sync.OnceFunc(c.pass)
	late := time.AfterFunc(c.session.engine.cfg.patience(), pass)
	c.try(ctx, g)
	late.Stop()
	pass()
	for n := 0; len(g.commits) > 0 && sleep(ctx, backoff(n)); n++ {
		c.try(ctx, g)
	}
	for i := range g.commits {
		c.end(&g.commits[i], i < len(g.commits)-1)
	}
	clear(g.commits)
	g.commits = g.commits[:0]
	groups.Put(g)
}

// pass sends the completions that were gathered while a request was in progress.
func (c *commits) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending--
	c.sendOn(c.last)
}

// try sends a group once, and removes the completions that got a definite answer.
func (c *commits) try(ctx context.Context, g *group) {
	for i := range g.commits {
		g.sets = append(g.sets, g.commits[i].set)
	}
	errs := c.session.engine.store.Settle(ctx, g.sets)
	clear(g.sets)
	g.sets = g.sets[:0]
	last := -1 // that is answered
	for i := range g.commits {
		one := &g.commits[i]
		var err error
		if errs != nil {
			err = errs[i]
		}
		one.err = telling(ctx, one.err, err)
		if answered(one.err) {
			last = i
		}
	}
	unanswered := g.commits[:0]
	for i := range g.commits {
		if one := &g.commits[i]; answered(one.err) {
			c.end(one, i < last)
		} else {
			unanswered = append(unanswered, *one)
		}
	}
	clear(g.commits[len(unanswered):])
	g.commits = unanswered
}

// end reports a completion's result and releases its place in the window. more reports that another one
// follows at once.
func (c *commits) end(one *commit, more bool) {
	one.done(one.set, settlementAnswer{err: one.err, took: time.Since(one.handed)}, more)
	c.leave()
}

// flush sends the completions that wait for an earlier request, because no more will follow that could be
// sent with them.
func (c *commits) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last = true; c.window != nil {
		c.sendOn(true)
	}
}

// wait waits until all completions are confirmed.
func (c *commits) wait(ctx context.Context) {
	if c.window == nil {
		return
	}
	c.waiter.Lock() // two concurrent calls would deadlock: each would hold places that the other needs
	defer c.waiter.Unlock()
	taken := 0
	for taken < cap(c.window) && c.enter(ctx) {
		taken++
	}
	for range taken {
		c.leave()
	}
}
