//go:build servers

package pgoutbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// An operator's open transaction locks a row. The events of its key behind it wait.
func TestLockedEventDelaysOnlyItsKey(t *testing.T) {
	const own = `WHERE payload = '2' AND aggregateid = 'k' AND aggregatetype = 't'`
	for name, tc := range map[string]struct {
		does string // %s is the table
		end  string
		then []string // the events of key k after its first
	}{
		"it is deleted":     {`DELETE FROM %s ` + own, "COMMIT", []string{"3", "4", "5"}},
		"it is not deleted": {`DELETE FROM %s ` + own, "ROLLBACK", []string{"2", "3", "4", "5"}},
		"it is parked":      {`UPDATE %s SET parked_at = now() ` + own, "COMMIT", []string{"3", "4", "5"}},
		"it is changed":     {`UPDATE %s SET payload = '2!' ` + own, "COMMIT", []string{"2!", "3", "4", "5"}},
		"it was only looked at": {`SELECT FROM %s ` + own + ` FOR SHARE`, "COMMIT",
			[]string{"2", "3", "4", "5"}},
		"it is delayed by a tick": {`UPDATE %s SET retry_at = now() + interval '1s' ` + own, "COMMIT",
			[]string{"2", "3", "4", "5"}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, postgres.URL())
			o, table := newOutbox(t, pool, pgoutbox.Config{})
			var events []outbox.Event
			for i := 1; i <= 5; i++ {
				for _, key := range []string{"k", "l", ""} {
					e := outbox.Event{Topic: "t", Key: []byte(key), Value: fmt.Append(nil, i)}
					if key == "" {
						e.Key = nil
					}
					events = append(events, e, outbox.Event{Topic: "another", Key: e.Key, Value: e.Value})
				}
			}
			publish(t, pool, o, events...)
			operator := begin(t, fmt.Sprintf(tc.does, table))
			kafka := &sender{}
			run(t, pool, o, kafka, pgoutbox.RelayConfig{Workers: 1, PollInterval: 10 * time.Millisecond})
			eventually(t, pool, 4, pendingIn(table)) // the second to the fifth of k
			publish(t, pool, o, outbox.Event{Topic: "t", Key: []byte("later")})
			eventually(t, pool, 4, pendingIn(table)) // it has read again
			if got := kafka.sent("t", "k"); !slices.Equal(got, []string{"1"}) {
				t.Errorf("%v of its key have gone", got)
			}
			for _, of := range [][2]string{{"t", "l"}, {"another", "k"}, {"another", "l"}} {
				if got := kafka.sent(of[0], of[1]); !slices.Equal(got, []string{"1", "2", "3", "4", "5"}) {
					t.Errorf("of %s %v have gone", of, got)
				}
			}
			if _, err := operator.Exec(t.Context(), tc.end); err != nil {
				t.Fatal(err)
			}
			eventually(t, pool, 0, pendingIn(table))
			if got := kafka.sent("t", "k")[1:]; !slices.Equal(got, tc.then) {
				t.Errorf("then %v have gone; want %v", got, tc.then)
			}
		})
	}
}

// Many locked keys with more events than a batch holds, in all shards, do not delay other keys.
func TestLockedEventsWithLongQueuesDelayNoOtherKey(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	const held, free, each = 150, 50, 20
	var events []outbox.Event
	for key := range held + free {
		for i := range each {
			events = append(events, outbox.Event{Topic: "t", Key: fmt.Append(nil, key),
				Value: fmt.Append(nil, i)})
		}
	}
	publish(t, pool, o, events...)
	operator := begin(t, fmt.Sprintf(`SELECT FROM %s WHERE payload = '0' AND convert_from(aggregateid, 'UTF8')::int < %d FOR UPDATE`, table, held))
	kafka := &sender{}
	run(t, pool, o, kafka, pgoutbox.RelayConfig{Batch: 40, PollInterval: 10 * time.Millisecond})
	eventually(t, pool, held*each, pendingIn(table))
	if _, err := operator.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	eventually(t, pool, 0, pendingIn(table))
	var want []string
	for i := range each {
		want = append(want, fmt.Sprint(i))
	}
	for key := range held + free {
		if got := kafka.values(fmt.Sprint(key)); !slices.Equal(got, want) {
			t.Errorf("key %d: %v have gone", key, got)
		}
	}
}

// begin executes a statement in a transaction and leaves it open.
func begin(t *testing.T, sql string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), postgres.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `BEGIN; `+sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return conn
}

// sent returns the events sent for a topic and key.
func (s *sender) sent(topic, key string) (values []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.Topic == topic && string(e.Key) == key {
			values = append(values, string(e.Value))
		}
	}
	return values
}
