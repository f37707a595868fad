package esm

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		while, done, ok := g.pass(t.Context())
		if !ok || while.Err() != nil || g.set(true) {
			t.Fatal("an open gate lets pass, and opening it changes nothing")
		}
		defer done()
		if !g.set(false) || g.set(false) {
			t.Error("closing it is a change, once")
		}
		<-while.Done() // what waits for records is called back

		passed := make(chan bool)
		go func() {
			_, done, ok := g.pass(t.Context())
			done()
			passed <- ok
		}()
		synctest.Wait()
		select {
		case <-passed:
			t.Fatal("a closed gate lets pass")
		default:
		}
		g.set(true)
		if !<-passed {
			t.Error("an opened gate does not let pass")
		}
		g.set(false)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, ok := g.pass(ctx); ok {
			t.Error("a closed gate lets pass what is done")
		}
	})
}
