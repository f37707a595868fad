package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/reconcile"
)

// large is a store with n overdue keys, each with a result. It lists them until the context ends.
type large struct {
	store.Admin
	n     int
	begin func()
}

func (l large) List(ctx context.Context, _ store.ListQuery) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if l.begin != nil {
			l.begin()
		}
		for i := range l.n {
			if err := ctx.Err(); err != nil {
				yield(store.Entry{}, fmt.Errorf("listing: %w", err))
				return
			}
			entry := store.Entry{Key: fmt.Sprint("key-", i), Status: store.StatusStarted,
				CreatedAt: now.Add(-time.Hour), LeaseUntil: now.Add(-time.Minute), Result: make([]byte, 64)}
			if !yield(entry, nil) {
				return
			}
		}
	}
}

// heap returns the number of bytes in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestMemoryDoesNotDependOnTheStore(t *testing.T) {
	before := heap()
	r, err := reconcile.Run(t.Context(), large{n: 1_000_000}, nil, reconcile.Options{Limit: 5}, now)
	if err != nil {
		t.Fatal(err)
	}
	used := heap() - before
	equal(t, "found", fmt.Sprint(r.Records, r.Found.Overdue, len(r.Overdue)), "1000000 1000000 5")
	equal(t, "oldest in progress", r.InProgress.String(), "1h0m0s")
	if used > 1<<20 || r.Overdue[0].Result != nil {
		t.Errorf("the report of a million keys uses %d bytes; its first entry is %+v", used, r.Overdue[0])
	}
}

// rowsOf is an export of n rows of 1,000 bytes.
func rowsOf(n int) io.Reader {
	r, w := io.Pipe()
	go func() {
		_, _ = fmt.Fprintln(w, "id,text")
		for i := range n {
			_, _ = fmt.Fprintf(w, "payment-%028d,%s\n", i, strings.Repeat("x", 960))
		}
		_ = w.Close()
	}()
	return r
}

func TestMemoryOfAnExport(t *testing.T) {
	const rows = 100_000
	before, used := heap(), int64(0)
	st := large{begin: func() { used = heap() - before }}
	r, err := reconcile.Run(t.Context(), st, reconcile.ReadExport("e.csv", rowsOf(rows), "id"),
		reconcile.Options{Limit: 5}, now)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "found", fmt.Sprint(r.Rows, r.Found.OnlyInExport, len(r.OnlyInExport)), "100000 100000 5")
	if t.Logf("%d bytes a row", used/rows); used > 150*rows {
		t.Errorf("%d rows use %d bytes, more than 150 each", rows, used)
	}
}

func TestTheDeadlineLeavesAnUnfinishedReport(t *testing.T) {
	over, cancel := context.WithDeadline(t.Context(), now) // in the past
	defer cancel()
	slow := func(yield func(reconcile.Row, error) bool) {
		_ = yield(reconcile.Row{Key: "a", Line: 2}, nil) && yield(reconcile.Row{}, over.Err())
	}
	for name, export := range map[string]iter.Seq2[reconcile.Row, error]{
		"the store":  reconcile.ReadExport("e.csv", strings.NewReader("id\nghost\n"), "id"),
		"the export": slow,
	} {
		r, err := reconcile.Run(over, large{n: 1}, export, reconcile.Options{}, now)
		if err != nil || !r.Unfinished || r.OnlyInExport != nil || r.Differences() != 0 {
			t.Errorf("while reading %s: %+v, %v; want an unfinished report without differences", name, r, err)
		}
	}
	canceled, stop := context.WithCancel(t.Context())
	stop()
	if _, err := reconcile.Run(canceled, large{n: 1}, nil, reconcile.Options{}, now); !errors.Is(err,
		context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}
