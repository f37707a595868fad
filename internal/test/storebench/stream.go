package storebench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Polled is how many records a poll has, and Lanes how many lanes they are in.
const (
	Polled = 500
	Lanes  = 1000
)

// inProgress is how many records of a stream are in progress at most.
const inProgress = 4 * Polled

// Stream takes b.N fresh records through a scheduler, as a consumer process does. handle is the handler of a
// record in a lane, unless cfg has a bulk handler.
func Stream(b *testing.B, st store.Store, engine idem.Config, cfg idem.SchedulerConfig,
	handle func(ctx context.Context, lane string) error) {
	b.Helper()
	streamOf(b, idem.Executed, st, engine, cfg, handle)
}

// streamOf is Stream with the outcome of all records.
func streamOf(b *testing.B, want idem.Kind, st store.Store, engine idem.Config, cfg idem.SchedulerConfig,
	handle func(ctx context.Context, lane string) error) {
	b.Helper()
	e, err := idem.New(st, engine)
	if err != nil {
		b.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(e, cfg)
	if err != nil {
		b.Fatal(err)
	}
	room := make(chan struct{}, inProgress)
	var left sync.WaitGroup
	s := scheduler.Stream(b.Context(), func(it *idem.Item) {
		if it.Outcome.Kind != want {
			b.Errorf("%v: %v", it.Outcome.Kind, it.Outcome.Err)
		}
		<-room
		left.Done()
	}, nil)
	b.ResetTimer()
	b.StartTimer() // after another stream
	for n := 0; n < b.N; n += Polled {
		var items []*idem.Item
		for i := n; i < min(n+Polled, b.N); i++ {
			lane := strconv.Itoa(i % Lanes)
			items = append(items, &idem.Item{Lane: lane, Task: idem.Task{Key: fmt.Sprint("key ", i),
				Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) { return nil, handle(ctx, lane) })}})
			room <- struct{}{}
		}
		left.Add(len(items))
		s.Add(items...)
	}
	left.Wait()
	b.StopTimer()
	s.Close(b.Context())
}
