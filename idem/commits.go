package idem

import (
	"context"
	"sync"
	"time"
)

// commits gathers the completions of a session (group commit). One is sent at once while nothing is on its way, so that
// an idle session waits for nothing; otherwise they are gathered until there are enough for a request, or until the last
// of the requests before them has returned.
type commits struct {
	session *Session
	// window holds a token for each task whose handler may have run, and whose completion has not landed. nil if the
	// store is no Batcher: then there is nothing to gather for.
	window chan struct{}
	waiter sync.Mutex // see wait

	mu      sync.Mutex
	waiting []commit
	sending int // requests on their way, but for those that are sent again
}

// commit is a completion on its way.
type commit struct {
	set    Settlement
	handed time.Time
	err    error // what the store said last
	done   func(Settlement, settled)
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
func (c *commits) addAndWait(set Settlement) settled {
	landed := make(chan settled, 1)
	c.add(commit{set: set, done: func(_ Settlement, r settled) { landed <- r }})
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

// send sends a group, and then what has been gathered meanwhile. Those that come behind do not wait for what has to be sent
// again.
func (c *commits) send(group []commit) {
	for group != nil {
		ctx, cancel := c.session.settleContext()
		if again := c.try(ctx, group); len(again) > 0 {
			go c.resend(ctx, cancel, again)
		} else {
			cancel()
		}
		c.mu.Lock()
		c.sending--
		if group = c.next(); group != nil {
			c.sending++
		}
		c.sendOn()
		c.mu.Unlock()
	}
}

// resend sends a group until each of it has a proper answer, or time is over.
func (c *commits) resend(ctx context.Context, cancel context.CancelFunc, group []commit) {
	defer cancel()
	for n := 0; len(group) > 0 && sleep(ctx, backoff(n)); n++ {
		group = c.try(ctx, group)
	}
	for i := range group {
		c.end(&group[i])
	}
}

// try sends a group once and returns what is to be sent again.
func (c *commits) try(ctx context.Context, group []commit) (again []commit) {
	sets := make([]Settlement, len(group))
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
