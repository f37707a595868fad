package esm

import (
	"context"
	"sync"
)

// toggle is on while the mapping is enabled.
type toggle struct {
	mu     sync.Mutex
	on     bool
	change chan struct{} // closed, and replaced, by each change
}

func newToggle() *toggle { return &toggle{on: true, change: make(chan struct{})} }

// set sets the state, and reports whether it changed.
func (t *toggle) set(on bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.on == on {
		return false
	}
	t.on = on
	close(t.change)
	t.change = make(chan struct{})
	return true
}

// state returns the state, and a channel that is closed when it changes.
func (t *toggle) state() (on bool, change <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.on, t.change
}

// wait waits until the toggle is on, and returns a channel that is closed when it is off. It returns false if
// ctx ends.
func (t *toggle) wait(ctx context.Context) (change <-chan struct{}, on bool) {
	for ctx.Err() == nil {
		on, change := t.state()
		if on {
			return change, true
		}
		select {
		case <-change:
		case <-ctx.Done():
		}
	}
	return nil, false
}

// while waits until the toggle is on, and returns a context that ends when it is off. It returns false if ctx
// ends.
func (t *toggle) while(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	change, on := t.wait(ctx)
	if !on {
		return nil, nil, false
	}
	whileOn, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	var once sync.Once
	go func() {
		select {
		case <-change:
			cancel()
		case <-stop:
		}
	}()
	return whileOn, func() { once.Do(func() { close(stop) }); cancel() }, true
}
