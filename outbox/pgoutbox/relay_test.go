//go:build servers

package pgoutbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// sender takes the place of Kafka.
type sender struct {
	mu      sync.Mutex
	events  []outbox.Event
	reject  func(e outbox.Event) bool
	down    bool
	silent  string // a topic without a leader
	pinged  int
	holdsUp chan struct{} // blocks Send
}

var errTooOdd = fmt.Errorf("%w: too odd", relay.ErrRejected)

func (s *sender) Send(ctx context.Context, events []outbox.Event) []error {
	if s.holdsUp != nil {
		select {
		case <-s.holdsUp:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(events))
	behind := make(map[string]bool)
	for i, e := range events {
		switch {
		case s.down, s.silent != "" && e.Topic == s.silent:
			errs[i] = relay.ErrUnavailable
		case behind[string(e.Key)]:
			errs[i] = relay.ErrHeldBack
		case s.reject != nil && s.reject(e):
			errs[i] = errTooOdd
			behind[string(e.Key)] = true
		default:
			s.events = append(s.events, e)
		}
	}
	return errs
}

func (s *sender) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinged++
	if s.down {
		return relay.ErrUnavailable
	}
	return nil
}

func (s *sender) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// wait waits until a condition on what was sent is met.
func (s *sender) wait(tb testing.TB, met func() bool) {
	tb.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(patience); ; <-ticker.C {
		done := false
		s.set(func() { done = met() })
		if done {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("still not after %v", patience)
		}
	}
}

func (s *sender) values(key string) (values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if string(e.Key) == key {
			values = append(values, string(e.Value))
		}
	}
	return values
}

func pendingIn(table string) string {
	return `SELECT count(*) FROM ` + table + ` WHERE published_at IS NULL AND parked_at IS NULL`
}

// lockedBuffer is a log for concurrent writers.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// An event that commits after a later one of its key, which Kafka has rejected, does not wait for that one's
// next attempt.
func TestEventThatCommitsLateWaitsForNoLaterOne(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{reject: func(e outbox.Event) bool { return string(e.Value) == "bad" }}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := o.Publish(t.Context(), tx,
			outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("late")}); err != nil {
			return err
		}
		publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("k"), Value: []byte("bad")})
		run(t, pool, o, kafka, pgoutbox.RelayConfig{RetryDelay: time.Hour,
			PollInterval: 20 * time.Millisecond})
		eventually(t, pool, 1, `SELECT count(*) FROM `+table+` WHERE attempts = 1`)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, pool, 1, `SELECT count(*) FROM `+table+` WHERE published_at IS NOT NULL`)
	if got := kafka.values("k"); !slices.Equal(got, []string{"late"}) {
		t.Errorf("%v of its key were sent", got)
	}
}

func TestInvalidRowIsParked(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{}
	for _, row := range [][3]string{{"k", "1", `null`}, {"k", "2", `[{"key":"a","base64":"?"}]`},
		{"k", "3", `[{"key":"a","value":"b"}]`}, {"l", "1", `{"a":1}`}} {
		_, err := pool.Exec(t.Context(),
			`INSERT INTO `+table+` (id, aggregatetype, aggregateid, payload, headers) VALUES (gen_random_uuid(), 't', $1, $2, $3::jsonb)`,
			[]byte(row[0]), []byte(row[1]), row[2])
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, pool, o, kafka, pgoutbox.RelayConfig{MaxAttempts: 2, RetryDelay: 200 * time.Millisecond,
		PollInterval: 20 * time.Millisecond})
	eventually(t, pool, 2, `SELECT count(*) FROM `+table+` WHERE attempts = 1`)
	if got := kafka.values("k"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("while it is tried, %v of its key have gone", got)
	}
	eventually(t, pool, 0, pendingIn(table))
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table+
		` WHERE parked_at IS NOT NULL AND failure LIKE '%headers%'`); n != 2 {
		t.Errorf("%d are parked, want 2", n)
	}
	if got := kafka.values("k"); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("when it is parked, %v of its key were sent", got)
	}
}

// A row without key that is not an event holds back none with an empty key: one transaction rejects it and
// publishes the other.
func TestInvalidRowWithoutKeyDelaysNone(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	_, err := pool.Exec(t.Context(), `INSERT INTO `+table+` (id, aggregatetype, aggregateid, headers)
		VALUES (gen_random_uuid(), 't', NULL, '{}'), (gen_random_uuid(), 't', '', NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	run(t, pool, o, &sender{}, pgoutbox.RelayConfig{MaxAttempts: 1, Workers: 1})
	eventually(t, pool, 0, pendingIn(table))
	if n := ask[int](t, pool, `SELECT count(DISTINCT xmin::text) FROM `+table); n != 1 {
		t.Errorf("%d transactions; want 1", n)
	}
}

// While Kafka is unavailable, no attempt is counted and no transaction is open.
func TestRelayRetriesWhenKafkaIsUnavailable(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{down: true}
	stats := make(chan pgoutbox.Stats, 1000)
	publish(t, pool, o, outbox.Event{Topic: "t"})
	if _, err := pool.Exec(t.Context(), `UPDATE `+table+
		` SET created_at = now() - interval '1 day', published_at = now()`); err != nil {
		t.Fatal(err)
	}
	publish(t, pool, o, outbox.Event{Topic: "t"}, outbox.Event{Topic: "t"})
	run(t, pool, o, kafka, pgoutbox.RelayConfig{
		MaxAttempts: 1, Workers: 1, StatsInterval: 20 * time.Millisecond,
		Stats: func(s pgoutbox.Stats) {
			select {
			case stats <- s:
			default:
			}
		},
	})
	var failures int64
	for end := time.Now().Add(patience); failures == 0 && time.Now().Before(end); {
		s := <-stats
		failures += s.Failures
		if s.Failures > 0 && !errors.Is(s.LastFailure, relay.ErrUnavailable) {
			t.Errorf("%+v", s)
		}
		if s.Pending != 2 || s.OldestAge <= 0 || s.OldestAge > time.Hour {
			t.Errorf("%+v", s)
		}
	}
	if failures == 0 {
		t.Error("no failure is counted")
	}
	eventually(t, pool, 0, `SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND query LIKE '%`+table+` %'`)
	kafka.set(func() { kafka.down = false })
	eventually(t, pool, 0, pendingIn(table))
	if n := ask[int](t, pool, `SELECT max(attempts) FROM `+table); n != 0 {
		t.Errorf("%d attempts are charged", n)
	}
}

// While one topic is unavailable, the events of the others are sent, however many wait before them. The
// events of the topic are sent when it is available again, in order and without an attempt.
func TestOneTopicIsUnavailable(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	kafka := &sender{silent: "silent"}
	const keys, each = 600, 3
	for n := range each {
		var events []outbox.Event
		for k := range keys {
			events = append(events, outbox.Event{Topic: "silent", Key: fmt.Append(nil, "s", k), Value: fmt.Append(nil, n)})
		}
		publish(t, pool, o, events...)
	}
	for k := range 20 {
		publish(t, pool, o, outbox.Event{Topic: "good", Key: fmt.Append(nil, "g", k), Value: []byte("0")})
	}
	var log lockedBuffer
	run(t, pool, o, kafka, pgoutbox.RelayConfig{Batch: 100, MaxRetryDelay: 100 * time.Millisecond, RetryDelay: time.Millisecond,
		PollInterval: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	eventually(t, pool, keys*each, pendingIn(table))
	kafka.set(func() { kafka.silent = "" })
	publish(t, pool, o, outbox.Event{Topic: "silent", Key: []byte("s0"), Value: []byte("3")})
	eventually(t, pool, 0, pendingIn(table))
	for k := range keys {
		want := []string{"0", "1", "2"}
		if k == 0 {
			want = append(want, "3")
		}
		if got := kafka.values(fmt.Sprint("s", k)); !slices.Equal(got, want) {
			t.Fatalf("key %d: %q; want %q", k, got, want)
		}
	}
	if n := ask[int](t, pool, `SELECT max(attempts) FROM `+table); n != 0 {
		t.Errorf("%d attempts are charged", n)
	}
	if text := log.String(); !strings.Contains(text, "a topic of the outbox is unavailable") || strings.Contains(text, "the relay failed") {
		t.Errorf("the log is:\n%s", text)
	}
}

func TestPublishedRowsArePruned(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	publish(t, pool, o, outbox.Event{Topic: "t"}, outbox.Event{Topic: "bad"})
	run(t, pool, o, &sender{reject: func(e outbox.Event) bool { return e.Topic == "bad" }},
		pgoutbox.RelayConfig{Retention: time.Millisecond, StatsInterval: 10 * time.Millisecond,
			MaxAttempts: 1})
	eventually(t, pool, 1, `SELECT count(*) FROM `+table)
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table+` WHERE parked_at IS NOT NULL`); n != 1 {
		t.Error("the parked event was deleted")
	}

	o, table = newOutbox(t, pool, pgoutbox.Config{})
	publish(t, pool, o, outbox.Event{Topic: "t"})
	run(t, pool, o, &sender{}, pgoutbox.RelayConfig{Retention: -1})
	eventually(t, pool, 0, `SELECT count(*) FROM `+table)

	o, table = newOutbox(t, pool, pgoutbox.Config{LogOnly: true})
	publish(t, pool, o, outbox.Event{Topic: "t"})
	eventually(t, pool, 0, `SELECT count(*) FROM `+table)
}

// Publishing notifies a waiting relay. Without a waiting relay there is no NOTIFY.
func TestNotificationIsSentOnlyToWaitingRelays(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), fmt.Sprintf(`LISTEN outbox_%d`,
		ask[int](t, pool, `SELECT $1::text::regclass::oid::int`, table))); err != nil {
		t.Fatal(err)
	}
	publish(t, pool, o, outbox.Event{Topic: "t"})
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if n, err := conn.Conn().WaitForNotification(short); err == nil {
		t.Errorf("no relay waits, but %+v was sent", n)
	}
	kafka := &sender{}
	run(t, pool, o, kafka, pgoutbox.RelayConfig{Workers: 1, PollInterval: time.Hour})
	eventually(t, pool, 0, pendingIn(table))
	for i := range 3 {
		eventually(t, pool, 1, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND query LIKE '%'`+
			` AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = 4294967295 AND mode = 'ShareLock' AND classid = $1::text::regclass::oid)`, table)
		publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("k"), Value: fmt.Append(nil, i)})
		eventually(t, pool, 0, pendingIn(table))
	}
	if _, err := conn.Conn().WaitForNotification(t.Context()); err != nil {
		t.Error(err)
	}
}

// A relay holds the keys of its batch; another relay sends other keys meanwhile.
func TestTwoRelaysNeverHoldTheSameKey(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	slow, quick := &sender{holdsUp: make(chan struct{})}, &sender{}
	publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("a"), Value: []byte("1")})
	run(t, pool, o, slow, pgoutbox.RelayConfig{Workers: 1})
	eventually(t, pool, 1, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND classid = $1::text::regclass::oid`, table)
	publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("a"), Value: []byte("2")},
		outbox.Event{Topic: "t", Key: []byte("b"), Value: []byte("1")})
	stop := run(t, pool, o, quick, pgoutbox.RelayConfig{Workers: 1, PollInterval: 10 * time.Millisecond})
	eventually(t, pool, 2, pendingIn(table))
	if got := quick.values("a"); got != nil {
		t.Errorf("%v of a key went while its head was under way", got)
	}
	stop()
	close(slow.holdsUp)
	eventually(t, pool, 0, pendingIn(table))
	if got := strings.Join(slow.values("a"), ","); got != "1,2" {
		t.Errorf("%s have gone", got)
	}
}
