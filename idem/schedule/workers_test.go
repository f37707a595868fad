package schedule

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// Handlers that use all of the CPU do not delay claims and reports: the calls of handlers are taken last.
func TestCallsAreTakenAfterOtherJobs(t *testing.T) {
	var done []actionKind
	w := newWorkers(func(job action) { done = append(done, job.kind) })
	w.starting = true // no other worker is started
	w.add(action{kind: doCall}, action{kind: doCall}, action{kind: doClaim}, action{kind: doTell})
	w.mu.Lock()
	for w.left() > 0 {
		w.doNext()
	}
	w.mu.Unlock()
	if want := []actionKind{doClaim, doTell, doCall, doCall}; !slices.Equal(done, want) {
		t.Errorf("jobs are done in the order %v; want %v", done, want)
	}
}

// oneWorker is a store that lets a stream have no other goroutine than the one that claims.
type oneWorker struct {
	*memstore.Store
	stream *Stream
}

// Claim implements store.Store.
func (o *oneWorker) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	w := o.stream.driver.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starting = true
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
		scheduler, err := New(engine, Config{})
		if err != nil {
			t.Fatal(err)
		}
		keys.stream = scheduler.Stream(t.Context(), func(*Item) {}, nil)
		end, called := make(chan struct{}), ""
		item := func(name string) *Item {
			return &Item{Lane: name, Task: idem.Task{Key: name,
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
		w := keys.stream.driver.workers
		w.mu.Lock()
		w.starting = false
		w.start()
		w.mu.Unlock()
		stopping.Wait()
		close(end)
		if running := keys.stream.Close(t.Context()); len(running) > 0 || called != "a" {
			t.Errorf("%d items run, and the handlers of %q were called; want that of a", len(running), called)
		}
	})
}
