package schedule_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/idem/store"
)

// slow is a store that takes a time for each request, and does not complete a key before a time.
type slow struct {
	*memstore.Store
	takes time.Duration
	key   string
	from  time.Time
}

func (s *slow) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	<-time.After(s.takes)
	return s.Store.Claim(ctx, reqs)
}

func (s *slow) Settle(ctx context.Context, ss []store.Settlement) []error {
	<-time.After(s.takes)
	errs := make([]error, len(ss))
	for i := range ss {
		if ss[i].Key == s.key && time.Now().Before(s.from) {
			errs[i] = errors.New("no answer")
		} else if err := s.Store.Settle(ctx, ss[i:i+1]); err != nil {
			errs[i] = err[0]
		}
	}
	return errs
}

// bulks returns a scheduler with a bulk handler that does nothing.
func (s *slow) bulks(t *testing.T) *schedule.Scheduler {
	t.Helper()
	engine, err := idem.New(s, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := schedule.New(engine, schedule.Config{
		Bulk: func(_ context.Context, items []*schedule.Item) ([]schedule.Result, error) {
			return make([]schedule.Result, len(items)), nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return scheduler
}

// An item of a call whose completion is answered is told, although that of another item is not.
func TestEndsOfACallDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		s := &slow{Store: memstore.New(memstore.Config{BatchSize: 25}), key: "a", from: began.Add(10 * time.Second)}
		var mu sync.Mutex
		var told []string
		stream := s.bulks(t).Stream(t.Context(), func(it *schedule.Item) {
			mu.Lock()
			defer mu.Unlock()
			if told = append(told, it.Task.Key); it.Task.Key != "a" && time.Since(began) > time.Second {
				t.Errorf("%s is told after %v", it.Task.Key, time.Since(began))
			}
		}, nil)
		for _, it := range newFixture(t, idem.Config{}).items("a", "b", "c") {
			it.Lane = it.Task.Key
			stream.Add(it)
		}
		<-time.After(time.Minute)
		stream.Close(t.Context())
		slices.Sort(told)
		equal(t, "told", len(told), 3)
	})
}

// The completions of a call do not wait for a request of others when no handler follows.
func TestCompletionsOfACallAreFlushed(t *testing.T) {
	for _, n := range []int{2, 10, 25, 30, 60} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{Store: memstore.New(memstore.Config{BatchSize: 25}), takes: 5 * time.Millisecond}
			items := newFixture(t, idem.Config{}).items(numbered(n)...)
			began := time.Now()
			s.bulks(t).Run(t.Context(), [][]*schedule.Item{items})
			if took := time.Since(began); took != 2*s.takes {
				t.Errorf("%d items took %v; want %v", n, took, 2*s.takes)
			}
		})
	}
}
