package idem_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
)

func isLane(name string) func(string) bool {
	return func(lane string) bool { return lane == name }
}

func sources(items []*idem.Item) (all []string) {
	for _, it := range items {
		all = append(all, it.Task.Source)
	}
	return all
}

// Stop waits for the handler that runs. The items behind it are removed, and their attempts are not counted.
func TestStopRemovesItemsThatHaveNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.add("warm up", "w1", "w2")
		pass(time.Second)
		s.stream.Add(in("a", s.item("a1", "a1",
			func(context.Context) error { pass(time.Second); return nil }))...)
		s.add("a", "a2", "a3")
		s.add("b", "b1")
		pass(500 * time.Millisecond)
		equal(t, "keys claimed", s.held(), 3)
		if running := s.stream.Stop(t.Context(), isLane("a")); len(running) > 0 {
			t.Errorf("%v still run", sources(running))
		}
		s.want("settled", &s.ended, executed("w1", "w2", "b1", "a1")...)
		equal(t, "keys claimed", s.held(), 0)
		for _, key := range []string{"a2", "a3"} {
			if entry, err := s.store.Get(context.Background(), key); err != nil || entry.Attempts != 0 {
				t.Errorf("%s: %d attempts, %v", key, entry.Attempts, err)
			}
		}
		s.add("a", "a2") // the lane is assigned again
		pass(time.Second)
		s.want("settled", &s.ended, executed("w1", "w2", "b1", "a1", "a2")...)
		s.close()
	})
}

// A handler that outlasts Stop settles its key, without a call of done. A redelivery waits for it.
func TestStopReturnsTheItemsThatStillRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.stream.Add(in("a", s.item("a1", "a1",
			func(context.Context) error { pass(time.Minute); return nil }))...)
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		running := s.stream.Stop(ctx, isLane("a"))
		if got := sources(running); !slices.Equal(got, []string{"a1"}) || running[0].State != idem.ItemOverrun {
			t.Errorf("%v still run", got)
		}
		s.stream.Add(in("a", s.item("a1 again", "a1", nil), s.item("a2", "a2", nil))...)
		pass(30 * time.Second)
		s.want("settled", &s.ended)
		pass(time.Minute)
		s.want("settled", &s.ended, "a1 again Executed duplicate", "a2 Executed")
		s.want("calls", &s.calls, "a1", "a2")
		s.close()
	})
}

// Stop waits for the claims in progress, and for their release.
func TestStopWaitsForClaimsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.store.latency = 5 * time.Second
		s.add("a", "a1")
		pass(time.Second)
		began := time.Now()
		s.stream.Stop(t.Context(), isLane("a"))
		equal(t, "time to stop", time.Since(began), 9*time.Second)
		if entry, err := s.store.Get(context.Background(), "a1"); err != nil || !entry.Released() ||
			entry.Attempts != 0 {
			t.Errorf("%+v, %v", entry, err)
		}
		s.want("calls", &s.calls)
		s.close()
	})
}

// Stop does not wait for claims in progress longer than its context, and they are released when they are
// answered.
func TestStopReleasesClaimsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.store.latency = 5 * time.Second
		s.add("a", "a1")
		s.add("b", "b1")
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if running := s.stream.Stop(ctx, isLane("a")); len(running) > 0 || time.Since(began) > time.Second {
			t.Errorf("%v still run, after %v", sources(running), time.Since(began))
		}
		pass(10 * time.Minute)
		s.want("settled", &s.ended, executed("b1")...)
		if entry, err := s.store.Get(context.Background(), "a1"); err != nil || !entry.Released() ||
			entry.Attempts != 0 {
			t.Errorf("%+v, %v", entry, err)
		}
		s.close()
	})
}

// An item that fails while Stop waits for it is not tried again.
func TestStopDoesNotRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		s.stream.Add(in("a", s.item("a1", "a1",
			func(context.Context) error { pass(time.Second); return errBoom }))...)
		pass(500 * time.Millisecond)
		if running := s.stream.Stop(t.Context(), isLane("a")); len(running) > 0 {
			t.Errorf("%v still run", sources(running))
		}
		s.want("retried", &s.retried, "a1 Retry")
		pass(time.Hour)
		s.want("calls", &s.calls, "a1")
		s.close()
	})
}

// After Close nothing is handled, and nothing is claimed.
func TestCloseEndsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{Concurrency: 1})
		var cause error
		s.stream.Add(in("a", s.item("a1", "a1",
			func(ctx context.Context) error { <-ctx.Done(); cause = ctx.Err(); return cause }))...)
		s.add("b", "b1")
		pass(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := sources(s.stream.Close(ctx)); !slices.Equal(got, []string{"a1"}) {
			t.Errorf("%v still run", got)
		}
		s.add("c", "c1")
		pass(time.Hour)
		s.want("calls", &s.calls, "a1")
		s.want("settled", &s.ended)
		if cause == nil {
			t.Error("the handler's context did not end")
		}
		s.close() // again
	})
}

// When the context of the stream ends, the handlers' contexts end and nothing begins any more.
func TestStreamEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		s.start(ctx, idem.Config{}, idem.SchedulerConfig{Concurrency: 1})
		s.stream.Add(in("a", s.item("a1", "a1",
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }))...)
		s.add("a", "a2")
		s.add("b", "b1")
		pass(time.Second)
		cancel()
		pass(time.Hour)
		s.want("calls", &s.calls, "a1")
		s.close()
		equal(t, "keys claimed", s.held(), 0)
	})
}

// Items are added while lanes are stopped and the stream is closed. After Close nothing is called and nothing
// is kept.
func TestStreamIsSafeForConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, idem.Config{}, idem.SchedulerConfig{Backoff: time.Millisecond})
		var all sync.WaitGroup
		for n := range 4 {
			all.Go(func() {
				for i := range 300 {
					name := fmt.Sprint("lane", i%7)
					s.stream.Add(in(name, s.item("", fmt.Sprint("k", (i*n)%100), func(context.Context) error {
						if i%9 == 0 {
							return errBoom
						}
						return nil
					}))...)
					pass(time.Millisecond)
				}
			})
			all.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%10)*time.Millisecond)
					s.stream.Stop(ctx, isLane(fmt.Sprint("lane", i%7)))
					cancel()
				}
			})
		}
		pass(200 * time.Millisecond)
		s.close()
		s.mu.Lock()
		calls, ended, retried := len(s.calls), len(s.ended), len(s.retried)
		s.mu.Unlock()
		all.Wait()
		pass(time.Hour)
		synctest.Wait()
		equal(t, "handlers called", len(s.calls), calls)
		equal(t, "items settled", len(s.ended), ended)
		equal(t, "tries reported", len(s.retried), retried)
		equal(t, "left in the stream", s.stream.Leftover(), "")
		if ended == 0 || retried == 0 {
			t.Errorf("%d items were settled, %d retried", ended, retried)
		}
	})
}
