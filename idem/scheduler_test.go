package idem_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// fixture is a scheduler on a memory store, with the records of its handlers' calls.
type fixture struct {
	*testing.T
	store     *memstore.Store
	engine    *idem.Engine
	scheduler *idem.Scheduler
	bulks     *idem.Scheduler // for handle
	handle    idem.BulkHandler

	mu    sync.Mutex
	calls [][]string // of the bulk handler: the keys of each
	order []string   // of the items' own handlers
}

func newFixture(t *testing.T, cfg idem.Config) *fixture {
	f := &fixture{T: t, store: memstore.New(memstore.Config{BatchSize: 25})}
	cfg.RetryDelay = cmp.Or(cfg.RetryDelay, -1)
	var err error
	if f.engine, err = idem.New(f.store, cfg); err != nil {
		t.Fatal(err)
	}
	if f.scheduler, err = idem.NewScheduler(f.engine, idem.SchedulerConfig{}); err != nil {
		t.Fatal(err)
	}
	if f.bulks, err = idem.NewScheduler(f.engine, idem.SchedulerConfig{Bulk: f.handleBulk}); err != nil {
		t.Fatal(err)
	}
	return f
}

// item returns an item whose handler records its call.
func (f *fixture) item(key string) *idem.Item {
	return &idem.Item{Task: idem.Task{Key: key, Source: "source of " + key,
		Fingerprint: store.FingerprintOf([]byte(key)),
		Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.order = append(f.order, key)
			return []byte("result of " + key), nil
		})}}
}

func (f *fixture) items(keys ...string) []*idem.Item {
	items := make([]*idem.Item, len(keys))
	for i, key := range keys {
		items[i] = f.item(key)
	}
	return items
}

// bulk runs items with a deadline and a bulk handler that returns fail's errors, nil for success.
func (f *fixture) bulk(items []*idem.Item,
	fail func(ctx context.Context, it *idem.Item) error) []*idem.Item {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return f.runBulk(ctx, items,
		func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
			results := make([]idem.BulkResult, len(items))
			var keys []string
			for i, it := range items {
				keys = append(keys, it.Task.Key)
				results[i].Value = []byte("result of " + it.Task.Key)
				if fail != nil {
					results[i].Err = fail(ctx, it)
				}
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			f.calls = append(f.calls, keys)
			return results, nil
		})
}

func (f *fixture) handleBulk(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
	return f.handle(ctx, items)
}

// runBulk runs items with a bulk handler, each in a lane of its own.
func (f *fixture) runBulk(ctx context.Context, items []*idem.Item, handle idem.BulkHandler) []*idem.Item {
	f.handle = handle
	return f.bulks.Run(ctx, unordered(items))
}

// unordered returns a lane for each item.
func unordered(items []*idem.Item) (lanes [][]*idem.Item) {
	return slices.Collect(slices.Chunk(items, 1))
}

// hold claims a key for another process.
func (f *fixture) hold(key string, lease time.Duration) store.Entry {
	f.Helper()
	res := f.store.Claim(context.Background(), []store.ClaimRequest{{
		Key: key, Owner: "another", Fingerprint: store.FingerprintOf([]byte(key)), Lease: lease,
		Retention: time.Hour,
	}})[0]
	if res.State != store.Claimed {
		f.Fatalf("state %v: %v", res.State, res.Err)
	}
	return res.Entry
}

// die lets attempts at a key begin whose processes die. The last lease is over.
func (f *fixture) die(key string, attempts int) (entry store.Entry) {
	f.Helper()
	for n := range attempts {
		res := f.store.Claim(context.Background(), []store.ClaimRequest{{
			Key: key, Owner: fmt.Sprint("dead ", n), Fingerprint: store.FingerprintOf([]byte(key)), Lease: time.Second,
			Retention: time.Hour, TakeOver: true,
		}})[0]
		if res.State != store.Claimed || res.Entry.Attempts != n+1 {
			f.Fatalf("state %v, attempt %d: %v", res.State, res.Entry.Attempts, res.Err)
		}
		entry = res.Entry
		<-time.After(2 * time.Second)
	}
	return entry
}

func (f *fixture) wantCalls(want ...[]string) {
	f.Helper()
	if !slices.EqualFunc(f.calls, want, slices.Equal) {
		f.Errorf("calls %v; want %v", f.calls, want)
	}
}

func (f *fixture) wantKinds(items []*idem.Item, want ...idem.Kind) {
	f.Helper()
	var got []idem.Kind
	for _, it := range items {
		got = append(got, it.Outcome.Kind)
	}
	if !slices.Equal(got, want) {
		f.Errorf("outcomes %v; want %v", got, want)
		for _, it := range items {
			f.Log(it.Task.Key, it.Outcome.Kind, it.Outcome.Err)
		}
	}
}

func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	return keys
}
