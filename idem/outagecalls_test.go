package idem_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
)

// After an outage the first item of a lane tries a bulk handler, not one behind it, whose turn would be given back
// because the first one is refused. So the batches that follow call the handler again.
func TestCallsGoOnAfterAnOutage(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		for range 10 { // the claims of a call begin at the same time
			synctest.Test(t, func(t *testing.T) { callsAfterAnOutage(t, lanes) })
		}
	}
}

func callsAfterAnOutage(t *testing.T, lanes int) {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{RetryDelay: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	available := false
	s, err := idem.NewScheduler(engine, idem.SchedulerConfig{Bulk: func(_ context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
		results := make([]idem.BulkResult, len(items))
		for i := range results {
			if !available {
				results[i].Err = errBoom
			}
		}
		return results, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	settled := make(map[string]bool)
	batch := func() {
		all := make([][]*idem.Item, lanes)
		for i := range 10 * lanes {
			task := idem.Task{Key: fmt.Sprint("k", i), DeadLetters: &deadLetters{}}
			if lane := i % lanes; !settled[task.Key] {
				all[lane] = append(all[lane], &idem.Item{Task: task})
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s.Run(ctx, all)
		for _, lane := range all {
			for _, it := range lane {
				settled[it.Task.Key] = settled[it.Task.Key] || it.Settled()
			}
		}
		pass(5 * time.Second)
	}
	for down := false; !down; _, down = engine.HandlerDown() {
		batch()
	}
	pass(time.Minute) // the longest pause between two tries
	available = true
	batch()
	batch()
	for key, ended := range settled {
		if !ended {
			t.Errorf("%d lanes: %s is not settled by the second batch after the outage", lanes, key)
		}
	}
}
