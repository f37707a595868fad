package idem

import (
	"context"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// commits gathers the completions of a session (group commit). One is sent at once while nothing is on its way, so that
// an idle session waits for nothing; otherwise they are gathered until there are enough for a request, or until each of the
// requests before them has returned or has taken longer than Config.patience.
type commits struct {
	session *Session
	// window holds a token for each task whose handler may have run, and whose completion has not landed. nil if the
	// store is no Batcher: then there is nothing to gather for.
	window chan struct{}
	waiter sync.Mutex // see wait

	mu      sync.Mutex
	waiting []commit
	sending int // requests on their way, but for those that are sent again or have taken too long
}

// commit is a completion on its way.
type commit struct {
	set    store.Settlement
	handed time.Time
	err    error // what the store said last
	done   func(store.Settlement, settled)
}

// enter waits for a place in the window; false if completions are not gathered, or the context ends first. A place must be
// left, or used by add.
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

// add takes over a completion and its place in the window.
func (c *commits) add(one commit) {
	one.handed = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, one)
	c.sendOn()
}

// addAndWait is add for a completion whose outcome is waited for.
func (c *commits) addAndWait(set store.Settlement) settled {
	landed := make(chan settled, 1)
	c.add(commit{set: set, done: func(_ store.Settlement, r settled) { landed <- r }})
	return <-landed
}

// sendOn sends what is to be sent; c.mu is held.
func (c *commits) sendOn() {
	for {
		group := c.next()
		if group == nil {
			return
		}
		c.sending++
		go c.send(group)
	}
}

// next takes a group that is to be sent: a full one, or what there is if nothing is on its way. c.mu is held.
func (c *commits) next() []commit {
	size := c.session.engine.batch
	if n := len(c.waiting); n == 0 || (n < size && c.sending > 0) {
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

// send sends a group until each of it has a proper answer, or time is over. What comes behind does not wait for what is sent
// again.
func (c *commits) send(group []commit) {
	ctx, cancel := c.session.settleContext()
	defer cancel()
	pass := sync.OnceFunc(c.pass)
	late := time.AfterFunc(c.session.engine.cfg.patience(), pass)
	again := c.try(ctx, group)
	late.Stop()
	pass()
	for n := 0; len(again) > 0 && sleep(ctx, backoff(n)); n++ {
		again = c.try(ctx, again)
	}
	for i := range again {
		c.end(&again[i])
	}
}

// pass sends what has been gathered behind a request.
func (c *commits) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sending--
	c.sendOn()
}

// try sends a group once and returns what is to be sent again.
func (c *commits) try(ctx context.Context, group []commit) (again []commit) {
	sets := make([]store.Settlement, len(group))
	for i := range group {
		sets[i] = group[i].set
	}
	errs := c.session.engine.store.Settle(ctx, sets)
	for i := range group {
		one := &group[i]
		if one.err = nil; errs != nil {
			one.err = errs[i]
		}
		if answered(one.err) {
			c.end(one)
		} else {
			again = append(again, *one)
		}
	}
	return again
}

// end gives up a completion's place in the window when its task has been told.
func (c *commits) end(one *commit) {
	one.done(one.set, settled{err: one.err, took: time.Since(one.handed)})
	c.leave()
}

// wait waits until no completion is on its way.
func (c *commits) wait(ctx context.Context) {
	if c.window == nil {
		return
	}
	c.waiter.Lock() // two that take places from each other would wait for ever
	defer c.waiter.Unlock()
	taken := 0
	for taken < cap(c.window) && c.enter(ctx) {
		taken++
	}
	for range taken {
		c.leave()
	}
}
