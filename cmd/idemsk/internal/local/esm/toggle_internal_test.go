package esm

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestToggle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newToggle()
		while, done, ok := g.while(t.Context())
		if !ok || while.Err() != nil || g.set(true) {
			t.Fatal("a new toggle is on, and setting it on is no change")
		}
		defer done()
		if !g.set(false) || g.set(false) {
			t.Error("setting it off must be a change, once")
		}
		<-while.Done() // ends when it is off

		passed := make(chan bool)
		go func() {
			_, done, ok := g.while(t.Context())
			done()
			passed <- ok
		}()
		synctest.Wait()
		select {
		case <-passed:
			t.Fatal("a toggle that is off did not make it wait")
		default:
		}
		g.set(true)
		if !<-passed {
			t.Error("a toggle that was set on made it wait")
		}
		g.set(false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, ok := g.while(ctx); ok {
			t.Error("a toggle that is off is on after the context has ended")
		}
	})
}
