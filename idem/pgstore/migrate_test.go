//go:build servers

package pgstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

func TestConcurrentMigrationsAreAppliedOnce(t *testing.T) {
	pool := newPool(t, server.URL())
	table := unique("many")
	var mu sync.Mutex
	var applied []string
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			names, err := pgstore.Migrate(t.Context(), pool, table)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, names...)
		})
	}
	wg.Wait()
	if want := []string{"0001_create.sql"}; !slices.Equal(applied, want) {
		t.Errorf("applied %v; want %v", applied, want)
	}
	if err := newStore(t, pool, pgstore.Config{Table: table}).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPruneDeletesExpiredEntriesUpToItsLimit(t *testing.T) {
	pool := newPool(t, server.URL())
	st := newStore(t, pool, pgstore.Config{})
	for n := range 250 {
		req := request(fmt.Sprint("expired ", n), n)
		req.Lease, req.Retention = time.Millisecond, time.Millisecond
		st.Claim(t.Context(), []store.ClaimRequest{req})
	}
	execute(t, pool, `UPDATE `+st.Table()+` SET prune_after = now() - interval '1 second'`)
	st.Claim(t.Context(), []store.ClaimRequest{request("kept", 1)})

	busy, err := pool.Begin(t.Context()) // another transaction has locked one of the rows
	if err != nil {
		t.Fatal(err)
	}
	if _, err := busy.Exec(t.Context(), `UPDATE `+st.Table()+
		` SET attempts = 2 WHERE idempotency_key = 'expired 7'`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{100, 100, 49, 0} {
		if n, err := st.Prune(t.Context(), 100); err != nil || n != want {
			t.Errorf("pruned %d, %v; want %d", n, err, want)
		}
	}
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := st.Prune(t.Context(), 100); err != nil || n != 1 {
		t.Errorf("pruned %d, %v; want 1", n, err)
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM `+st.Table()); n != 1 {
		t.Errorf("%d records are left; want 1", n)
	}
	if _, err := st.Prune(t.Context(), 0); err == nil {
		t.Error("a limit of 0 is no error")
	}
}

func TestListReadsInPages(t *testing.T) {
	pool := newPool(t, server.URL())
	st := newStore(t, pool, pgstore.Config{})
	execute(t, pool, `INSERT INTO `+st.Table()+` SELECT 'k' || n, 'STARTED', 1, 'o', now(), NULL, 1, NULL, NULL, 0, NULL, NULL, NULL, '', now(), now(), now(), now()
		FROM generate_series(1, 2500) n`)
	n := 0
	for _, err := range st.List(t.Context(), store.ListQuery{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 2500 {
		t.Errorf("%d records; want 2500", n)
	}
}

func TestTextsMayHoldAnyBytes(t *testing.T) {
	st := newStore(t, newPool(t, server.URL()), pgstore.Config{})
	req := request("a\x00b\\0c\\", 1)
	req.Source = "top\x00ic\\-0@1\xff"
	entry := st.Claim(t.Context(), []store.ClaimRequest{req})[0].Entry
	set := settlement(entry, store.OpRelease)
	set.Failure.Message = "nul \x00, backslash \\, broken \xff"
	if errs := st.Settle(t.Context(), []store.Settlement{set}); errs != nil {
		t.Fatal(errs[0])
	}
	got, err := st.Get(t.Context(), req.Key)
	if err != nil {
		t.Fatal(err)
	}
	if got.Key != req.Key || got.Source != "top\x00ic\\-0@1\uFFFD" ||
		got.Failure.Message != "nul \x00, backslash \\, broken \uFFFD" {
		t.Errorf("%+v, failure %q", got, got.Failure.Message)
	}
}
