package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	page "github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// newOperator returns the page of a store in memory, and the store.
func newOperator(t *testing.T) (*operator, *memstore.Store) {
	t.Helper()
	st := memstore.New(memstore.Config{})
	o := &operator{
		command: &invocation{changes: true}, streams: command.Streams{Err: io.Discard},
		entries: readings{ctx: t.Context()},
		store:   &target.Store{Entries: st, Place: "memory", Explain: func(err error) error { return err }},
	}
	t.Cleanup(o.close)
	return o, st
}

func add(t *testing.T, st store.Store, key string, set *store.Settlement) store.Entry {
	t.Helper()
	res := st.Claim(t.Context(), []store.ClaimRequest{{Key: key, Owner: "o", Lease: time.Hour,
		Retention: time.Hour}})
	if res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	if set != nil {
		set.Key, set.Token, set.Owner, set.Retention = key, res[0].Entry.Token, "o", time.Hour
		if errs := st.Settle(t.Context(), []store.Settlement{*set}); errs != nil {
			t.Fatal(errs)
		}
	}
	return res[0].Entry
}

// 100,000 keys are read in bounded parts, each once, also if few match.
func TestListingOfManyKeysIsBounded(t *testing.T) {
	t.Parallel()
	o, st := newOperator(t)
	const keys = 100_000
	reqs := make([]store.ClaimRequest, keys)
	for i := range reqs {
		reqs[i] = store.ClaimRequest{Key: fmt.Sprintf("k-%06d", i), Owner: "o", Lease: time.Hour,
			Retention: time.Hour}
	}
	st.Claim(t.Context(), reqs)
	f := page.Filter{Has: "777"}
	seen, read, parts := make(map[string]bool), 0, 0
	for more := true; more; parts++ {
		got, err := o.Entries(t.Context(), f)
		if err != nil || got.Read > mostRead || len(got.Entries) > pageEntries {
			t.Fatalf("part %d: %d of %d entries, %v", parts, len(got.Entries), got.Read, err)
		}
		for _, e := range got.Entries {
			seen[e.Key] = true
		}
		read += got.Read
		f.Cursor = got.Cursor
		more = got.Cursor != ""
	}
	want := 0
	for i := range reqs {
		if strings.Contains(reqs[i].Key, "777") {
			want++
		}
	}
	if len(seen) != want || read != keys || parts < keys/mostRead {
		t.Errorf("%d keys of %d in %d parts, want %d", len(seen), read, parts, want)
	}
}

// A listing is continued once and by one request. Those that no request continues are forgotten, and a closed
// page reads nothing more.
func TestListingIsContinued(t *testing.T) {
	t.Parallel()
	o, st := newOperator(t)
	for i := range pageEntries + 1 {
		add(t, st, fmt.Sprint("k", i), nil)
	}
	first, err := o.Entries(t.Context(), page.Filter{})
	if err != nil || first.Cursor == "" {
		t.Fatal(first.Cursor, err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 2 {
		wg.Go(func() {
			if _, err := o.Entries(context.Background(), page.Filter{Cursor: first.Cursor}); errors.Is(err,
				page.ErrCursor) {
				mu.Lock()
				refused++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if refused != 1 {
		t.Errorf("%d of two requests were refused, want 1", refused)
	}
	oldest, err := o.Entries(t.Context(), page.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for range maxReadings {
		if _, err := o.Entries(t.Context(), page.Filter{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := o.Entries(t.Context(), page.Filter{Cursor: oldest.Cursor}); !errors.Is(err,
		page.ErrCursor) || len(o.entries.open) != maxReadings {
		t.Errorf("the oldest of %d listings: %v", len(o.entries.open), err)
	}
}

// A deletion names the version that was seen. If the entry has another one, or none, nothing is deleted.
func TestDeletionNeedsTheVersionSeen(t *testing.T) {
	t.Parallel()
	o, st := newOperator(t)
	entry := add(t, st, "k", &store.Settlement{Op: store.OpFail,
		Failure: &store.Failure{Code: store.CodePermanent, Message: "no"}})
	do := func(key string, token int64) error {
		_, err := o.Do(t.Context(), page.Change{Action: page.ChangeDelete, Key: key, Token: token})
		return err
	}
	for _, test := range []struct {
		key   string
		token int64
		is    error
		says  string
	}{
		{"k", entry.Token - 1, store.ErrFenced,
			fmt.Sprintf("the entry is now FAILED with version %d", entry.Token)},
		{"k", 0, page.ErrInput, "the version that was seen"}, {"", 1, page.ErrInput, "the key"},
		{"other", 1, store.ErrNotFound, "the entry is gone"},
	} {
		if err := do(test.key, test.token); !errors.Is(err, test.is) ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%q, %d: %v; want %q", test.key, test.token, err, test.says)
		}
	}
	if _, err := st.Get(t.Context(), "k"); err != nil {
		t.Errorf("the entry was deleted: %v", err)
	}
	if err := do("k", entry.Token); err != nil {
		t.Error(err)
	}
	if _, err := st.Get(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
	o.command.changes = false
	for _, action := range []string{page.ChangeDelete, page.ChangeRedrive, page.ChangeRequeue, "x"} {
		if _, err := o.Do(t.Context(), page.Change{Action: action, Key: "k", Token: 1}); !errors.Is(err,
			page.ErrReadOnly) {
			t.Errorf("%s without --allow-changes: %v", action, err)
		}
	}
}

// A hashed key is found by the key itself, and by the form in which a listing shows it.
func TestHashedKeyIsFound(t *testing.T) {
	t.Parallel()
	o, st := newOperator(t)
	hashed, err := store.Key("ledger#payments#secret", true)
	if err != nil {
		t.Fatal(err)
	}
	add(t, st, hashed, nil)
	for _, s := range []page.Search{{Key: "secret", Namespace: "ledger", Topic: "payments"},
		{Key: "ledger#payments#secret"}, {Key: hashed}} {
		if e, err := o.Entry(t.Context(), s); err != nil || e.Key != hashed {
			t.Errorf("%+v: %s, %v", s, e.Key, err)
		}
	}
	for _, s := range []page.Search{{}, {Key: "secret", Topic: "payments"}, {Key: "other"}} {
		if e, err := o.Entry(t.Context(), s); err == nil {
			t.Errorf("%+v: %+v", s, e)
		}
	}
}

// silent is an address that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// A request to a store that is silent ends with its page.
func TestRequestEndsWithItsPage(t *testing.T) {
	t.Parallel()
	f := target.StoreFlags{AWS: flags.AWS{Endpoint: "http://" + silent(t)}, Table: "idemsk"}
	st, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	o := &operator{command: &invocation{}, store: st, entries: readings{ctx: t.Context()}}
	ctx, closed := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := o.Entry(ctx, page.Search{Key: "k"}); !errors.Is(err, context.Canceled) {
			t.Errorf("a search: %v", err)
		}
	})
	wg.Go(func() {
		if _, err := o.Entries(ctx, page.Filter{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a listing: %v", err)
		}
	})
	closed()
	wg.Wait()
}
