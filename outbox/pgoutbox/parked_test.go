//go:build servers

package pgoutbox_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

func TestListParkedYieldsOldestFirst(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	list := func(limit int) (found []pgoutbox.ParkedEvent) {
		t.Helper()
		for e, err := range o.ListParked(t.Context(), pool, limit) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, e)
		}
		return found
	}
	id := func(n int) string { return fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n) }
	keys := [][]byte{nil, []byte("k"), {0, 0xff}, {}, nil, nil}
	for n, key := range keys {
		publish(t, pool, o, outbox.Event{ID: id(n), Topic: "credited", Key: key,
			Value: []byte("confidential")})
	}
	if found := list(0); found != nil {
		t.Errorf("%+v before anything was parked", found)
	}
	// The events 3, 2, 1, 0 are parked, in this order; 4 is to be retried, 5 is published.
	if _, err := pool.Exec(t.Context(), `UPDATE `+table+` SET attempts = 8, failure = 'too odd',
		created_at = '2026-01-01 00:00:00Z', parked_at = timestamptz '2026-01-02 00:00:00Z' - make_interval(secs => right(id::text, 1)::int)
		WHERE id <= $1`, id(3)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE `+table+
		` SET attempts = 1, failure = 'too odd', retry_at = now() WHERE id = $1`, id(4)); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE `+table+
		` SET published_at = now(), parked_at = now() WHERE id = $1`, id(5)); err != nil {
		t.Fatal(err)
	}
	var want []pgoutbox.ParkedEvent
	for n := 3; n >= 0; n-- {
		at := time.Date(2026, 1, 2, 0, 0, -n, 0, time.UTC)
		want = append(want, pgoutbox.ParkedEvent{
			ID: id(n), Topic: "credited", Key: keys[n],
			CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), At: at, Attempts: 8,
			Failure: "too odd",
		})
	}
	for limit, want := range map[int][]pgoutbox.ParkedEvent{0: want, 1: want[:1], 3: want[:3], 100: want} {
		found := list(limit)
		for i := range found {
			found[i].CreatedAt, found[i].At = found[i].CreatedAt.UTC(), found[i].At.UTC()
		}
		if !reflect.DeepEqual(found, want) {
			t.Errorf("limit %d: %+v, want %+v", limit, found, want)
		}
	}
	for range o.ListParked(t.Context(), pool, 0) {
		break // releases the connection
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are still taken", n)
	}
	if n, err := o.Requeue(t.Context(), pool, id(2), id(4), id(5)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if found := list(0); len(found) != 3 {
		t.Errorf("%+v after one of four was requeued", found)
	}
	// A row that an operator parked by hand has no failure.
	if _, err := pool.Exec(t.Context(), `UPDATE `+table+` SET failure = NULL`); err != nil {
		t.Fatal(err)
	}
	if found := list(1); len(found) != 1 || found[0].Failure != "" {
		t.Errorf("without a reason: %+v", found)
	}
}

func TestListParkedErrorNamesTheRemedy(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, err := pgoutbox.New(pgoutbox.Config{Table: "missing"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range o.ListParked(t.Context(), pool, 0) {
		n++
		if err == nil || !strings.Contains(err.Error(), "idemsk relay --migrate") {
			t.Errorf("%+v, %v; want what to do", e, err)
		}
	}
	if n != 1 {
		t.Errorf("%d are yielded, want the error alone", n)
	}
}
