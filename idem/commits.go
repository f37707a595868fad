package idem

import (
	"context"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// commits sends the completions of a session in groups (group commit). A completion is sent at once if no
// request is in progress. Otherwise completions are gathered until they fill a request, or until each earlier
// request has returned or has taken longer than Config.patience. Those of Session.Return are sent at once.
type commits struct {
	session *Session
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

// next removes the next group to send: a full one, or all completions if no request is in progress or nothing is
// to wait. It returns nil if there is none. c.mu is held.
func (c *commits) next(all bool) []commit {
	size := c.session.engine.batch
	if n := len(c.waiting); n == 0 || (n < size && c.sending > 0 && !all) {
		return nil
	}
	n := min(size, len(c.waiting))
	group := make([]commit, n)
	copy(group, c.waiting)
	rest := copy(c.waiting, c.waiting[n:])
	clear(c.waiting[rest:])
	c.waiting = c.waiting[:rest]
	return group
}

// send sends a group, and retries those completions that got no definite answer until the session's time
// ends. Later groups do not wait for the retries.
func (c *commits) send(group []commit) {
	ctx, cancel := c.session.settleContext()
	defer cancel()
	pass := sync.OnceFunc(c.pass)
	late := time.AfterFunc(c.session.engine.cfg.patience(), pass)
	unanswered := c.try(ctx, group)
	late.Stop()
	pass()
	for n := 0; len(unanswered) > 0 && sleep(ctx, backoff(n)); n++ {
		unanswered = c.try(ctx, unanswered)
	}
	for i := range unanswered {
		c.end(&unanswered[i], i < len(unanswered)-1)
	}
}

// pass sends the completions that were gathered while a request was in progress.
func (c *commits) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending--
	c.sendOn(c.last)
}

// try sends a group once and returns the completions that got no definite answer.
func (c *commits) try(ctx context.Context, group []commit) (unanswered []commit) {
	sets := make([]store.Settlement, len(group))
	for i := range group {
		sets[i] = group[i].set
	}
	errs := c.session.engine.store.Settle(ctx, sets)
	last := -1 // that is answered
	for i := range group {
		if group[i].err = nil; errs != nil {
			group[i].err = errs[i]
		}
		if answered(group[i].err) {
			last = i
		} else {
			unanswered = append(unanswered, group[i])
		}
	}
	for i := range group[:last+1] {
		if one := &group[i]; answered(one.err) {
			c.end(one, i < last)
		}
	}
	return unanswered
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
