package idem_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// oneWorker is a store that lets a stream have no other goroutine than the one that claims.
type oneWorker struct {
	*memstore.Store
	stream *idem.Stream
	goOn   func()
}

// Claim implements store.Store.
func (o *oneWorker) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	o.goOn = o.stream.HoldWorkers()
	return o.Store.Claim(ctx, reqs)
}

// Stop takes back a call that no goroutine has taken: the handler is not called, and the key is released.
func TestStopTakesBackCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := &oneWorker{Store: memstore.New(memstore.Config{BatchSize: 25})}
		engine, err := idem.New(keys, idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		keys.stream = scheduler.Stream(t.Context(), func(*idem.Item) {}, nil)
		end, called := make(chan struct{}), ""
		item := func(name string) *idem.Item {
			return &idem.Item{Lane: name, Task: idem.Task{Key: name,
				Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
					called += name
					<-end
					return nil, nil
				})}}
		}
		keys.stream.Add(item("a"), item("b"))
		synctest.Wait()
		var stopping sync.WaitGroup
		stopping.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			running := keys.stream.Stop(ctx, func(lane string) bool { return lane == "b" })
			if entry, err := keys.Get(t.Context(), "b"); len(running) > 0 || err != nil || entry.Attempts != 0 {
				t.Errorf("%d items run; b: %d attempts, %v", len(running), entry.Attempts, err)
			}
		})
		synctest.Wait()
		keys.goOn()
		stopping.Wait()
		close(end)
		if running := keys.stream.Close(t.Context()); len(running) > 0 || called != "a" {
			t.Errorf("%d items run, and the handlers of %q were called; want that of a", len(running), called)
		}
	})
}
