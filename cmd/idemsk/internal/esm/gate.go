package esm

import (
	"context"
	"sync"
)

// gate is open while the mapping is enabled.
type gate struct {
	mu     sync.Mutex
	open   bool
	change chan struct{} // closed, and replaced, by each change
}

func newGate() *gate { return &gate{open: true, change: make(chan struct{})} }

// set reports whether that was a change.
func (g *gate) set(open bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == open {
		return false
	}
	g.open = open
	close(g.change)
	g.change = make(chan struct{})
	return true
}

func (g *gate) state() (open bool, change <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.change
}

// wait waits until the gate is open, and returns what is closed when it changes again; false if ctx is done.
func (g *gate) wait(ctx context.Context) (change <-chan struct{}, open bool) {
	for ctx.Err() == nil {
		open, change := g.state()
		if open {
			return change, true
		}
		select {
		case <-change:
		case <-ctx.Done():
		}
	}
	return nil, false
}

// pass waits until the gate is open, and returns a context that ends when it closes; false if ctx is done.
func (g *gate) pass(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	change, open := g.wait(ctx)
	if !open {
		return nil, nil, false
	}
	while, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-change:
			cancel()
		case <-stop:
		}
	}()
	return while, func() { once.Do(func() { close(stop) }); cancel() }, true
}
