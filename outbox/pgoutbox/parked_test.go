//go:build servers

package pgoutbox_test

import (
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
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

// A row of another program, whose times may be infinite, hides no parked event.
func TestParkedEventsWithInfiniteTimesAreListed(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	for column, infinite := range map[string]string{"created_at": "infinity", "parked_at": "-infinity"} {
		for _, at := range []string{infinite, "2026-01-01 00:00:00Z"} {
			publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte(column + " " + at)})
			if _, err := pool.Exec(t.Context(), `UPDATE `+table+` SET parked_at = '2026-01-01 00:00:00Z', created_at = '2026-01-01 00:00:00Z'
				WHERE parked_at IS NULL`); err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), `UPDATE `+table+` SET `+column+` = $1::text::timestamptz WHERE aggregateid = $2`,
				at, column+" "+at); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := 0
	for e, err := range o.ListParked(t.Context(), pool, 0) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		key := string(e.Key)
		if e.CreatedAt.IsZero() != (key == "created_at infinity") || e.At.IsZero() != (key == "parked_at -infinity") {
			t.Errorf("%s: created %v, parked %v", key, e.CreatedAt, e.At)
		}
	}
	if n != 4 {
		t.Errorf("%d events; want 4", n)
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

// A rejected event delays only its own key until it is parked. It can be requeued.
func TestRejectedEventIsParked(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{reject: func(e outbox.Event) bool { return string(e.Value) == "bad" }}
	stats := make(chan pgoutbox.Stats, 1)
	said := new(lockedBuffer)
	for _, v := range []string{"1", "bad", "3"} {
		publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte(v)},
			outbox.Event{Topic: "t", Key: []byte("other"), Value: []byte(v + "!")})
	}
	stop := run(t, pool, o, kafka, pgoutbox.RelayConfig{
		MaxAttempts: 3, RetryDelay: 200 * time.Millisecond, PollInterval: 20 * time.Millisecond,
		Stats: func(s pgoutbox.Stats) { stats <- s }, StatsInterval: time.Hour,
		Logger: slog.New(slog.NewTextHandler(said, nil)),
	})
	eventually(t, pool, 1, `SELECT count(*) FROM `+table+` WHERE attempts = 1`)
	eventually(t, pool, 2, pendingIn(table)) // the rejected event and the one behind it
	if got := kafka.values("k"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("while it is tried, %v of its key have gone", got)
	}
	eventually(t, pool, 0, pendingIn(table))
	if got := kafka.values("k"); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("when it is parked, %v of its key were sent", got)
	}
	if got := kafka.values("other"); !slices.Equal(got, []string{"1!", "bad!", "3!"}) {
		t.Errorf("of another key %v have gone", got)
	}
	if got := ask[string](t, pool, `SELECT attempts || failure FROM `+table+
		` WHERE parked_at IS NOT NULL`); got != "3"+errTooOdd.Error() {
		t.Errorf("it is remembered as %q", got)
	}
	id := ask[string](t, pool, `SELECT id::text FROM `+table+` WHERE parked_at IS NOT NULL`)
	kafka.set(func() { kafka.reject = nil })
	if n, err := o.Requeue(t.Context(), pool, id); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	eventually(t, pool, 0, pendingIn(table))
	if got := kafka.values("k"); !slices.Equal(got, []string{"1", "3", "bad"}) {
		t.Errorf("tried again, %v of its key have gone", got)
	}
	go stop()
	if s := <-stats; s.Published != 6 || s.Rejected != 3 || s.Parked != 1 || s.Pending != 0 ||
		s.TotalParked != 0 || s.Failures != 0 || s.Unknown {
		t.Errorf("%+v", s)
	}
	stop()
	// The log has the first rejection and that it is parked at once, and the others later: here at the end.
	lines := regexp.MustCompile(`level=(\w+) msg="([^"]*)" table=\w+ topic=t events=(\d) event=`+id+
		` attempts=(\d) error=.*`).FindAllStringSubmatch(said.String(), -1)
	var got []string
	for _, l := range lines {
		got = append(got, strings.Join(l[1:], " "))
	}
	const again, parked = "WARN events of the outbox are rejected: they are retried 1 ",
		"ERROR events of the outbox are rejected: they are parked (idemsk outbox lists them) 1 "
	if want := []string{again + "1", parked + "3", again + "2"}; !slices.Equal(got, want) {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// What is behind a parked event does not wait for the time at which that would have been retried.
func TestParkedEventDelaysNothing(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{reject: func(e outbox.Event) bool { return string(e.Value) == "bad" }}
	publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("bad")},
		outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("2")})
	run(t, pool, o, kafka, pgoutbox.RelayConfig{MaxAttempts: 1, RetryDelay: time.Hour,
		PollInterval: 20 * time.Millisecond})
	eventually(t, pool, 0, pendingIn(table))
	if got := kafka.values("k"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("%v of its key have gone", got)
	}
}

// Many events that can't be sent yet do not delay other keys, nor the same key of another topic.
func TestRejectedEventWithALongQueueDelaysNoOtherKey(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{reject: func(e outbox.Event) bool { return string(e.Value) == "bad" }}
	events := []outbox.Event{{Topic: "t", Key: []byte("k"), Value: []byte("bad")}}
	for range 500 {
		events = append(events, outbox.Event{Topic: "t", Key: []byte("k")})
	}
	for i := range 100 {
		events = append(events, outbox.Event{Topic: "t", Key: fmt.Append(nil, i)})
	}
	publish(t, pool, o, events...)
	run(t, pool, o, kafka, pgoutbox.RelayConfig{Batch: 10, RetryDelay: time.Hour,
		PollInterval: 20 * time.Millisecond})
	eventually(t, pool, 501, pendingIn(table))
	publish(t, pool, o, outbox.Event{Topic: "another", Key: []byte("k"), Value: []byte("of another topic")})
	eventually(t, pool, 1, `SELECT count(*) FROM `+table+
		` WHERE aggregatetype = 'another' AND published_at IS NOT NULL`)
	eventually(t, pool, 501, pendingIn(table))
}
