//go:build rest

package pgoutbox_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/internal/test/testbed"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

func TestEventsArriveUnchanged(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	topic := newTopic(t, 1)
	events := []outbox.Event{
		{Topic: topic, Key: []byte("k"), Value: []byte(`{"a":1}`),
			Headers: []outbox.Header{{Key: "trace", Value: []byte("é")},
				{Key: "trace", Value: []byte{0, 0xff}}}},
		{Topic: topic, Key: []byte{0, 0xff}, Value: []byte{0xfe, 0},
			Headers: []outbox.Header{{Key: "none"}, {Key: "empty", Value: []byte{}}}},
		{Topic: topic, Key: []byte("k")},
		{Topic: topic, Key: []byte("k"), Value: []byte{}},
		{ID: "019a7c54-0000-7000-8000-00000000abcd", Topic: topic, Value: []byte("no key"),
			Headers: []outbox.Header{{Key: "event-type", Value: []byte("credited")}}},
		{Topic: topic, Value: []byte("a key of its own"),
			Headers: []outbox.Header{{Key: outbox.KeyHeader, Value: []byte("order-7")}}},
	}
	for _, e := range events { // one by one, so that events without a key are in order too
		publish(t, pool, o, e)
	}
	r := newReader(t, topic)
	stop := run(t, pool, o, newProducer(t, relay.Config{}), pgoutbox.RelayConfig{Workers: 1})
	r.ids(t, len(events))
	for _, e := range events {
		i := slices.IndexFunc(r.all, func(got *kgo.Record) bool {
			return bytes.Equal(got.Key, e.Key) && bytes.Equal(got.Value, e.Value) &&
				(got.Value == nil) == (e.Value == nil) && (got.Key == nil) == (e.Key == nil)
		})
		if i < 0 {
			t.Errorf("no record of %+v", e)
			continue
		}
		if e.ID == "" {
			e.ID = idOf(r.all[i])
		}
		got, want := r.all[i].Headers, e.RecordHeaders()
		if len(got) != len(want) {
			t.Errorf("%+v has headers %+v", e, got)
			continue
		}
		for n, h := range want {
			if h.Key != got[n].Key || !bytes.Equal(h.Value, got[n].Value) ||
				(h.Value == nil) != (got[n].Value == nil) {
				t.Errorf("header %+v came as %+v", h, got[n])
			}
		}
	}
	stop()
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table+
		` WHERE published_at IS NOT NULL`); n != len(events) {
		t.Errorf("%d are marked as published, want %d", n, len(events))
	}
	if got := ask[string](t, pool, `SELECT type FROM `+table+
		` WHERE aggregateid IS NULL`); got != "credited" {
		t.Errorf("the type is %q", got)
	}
}

// Partitions are made and dropped while transactions publish and relays send: no event is lost or out of
// order. A partition with a parked event stays until the event was requeued and sent.
func TestDroppedPartitionsLoseNothingAndKeepOrder(t *testing.T) {
	topic, early, missing := newTopic(t, 3), newTopic(t, 1), unique("missing")
	pool, o := newPartitioned(t, outbox.Event{Topic: early, Key: []byte("before"), Value: []byte("1")})
	partitions(t, pool, 2, false)
	holder := publishInto(t, pool, missing, "1")
	for range 2 {
		run(t, pool, o, newProducer(t, relay.Config{}),
			pgoutbox.RelayConfig{Batch: testbed.SmallBatch, MaxAttempts: 1, Retention: 24 * time.Hour})
	}
	eventually(t, pool, 1, `SELECT count(*) FROM outbox WHERE parked_at IS NOT NULL`)
	a := newAccounts(t, pool, 50)
	a.creditWhile(t, o, topic, 1000, func() {
		dropped, kept := 0, false
		partitionsUntil(t, pool, 2, "dropped partitions", func(lines []string) bool {
			for _, line := range lines {
				if strings.HasPrefix(line, "dropped ") {
					dropped++
				}
				kept = kept || line == "kept "+holder+", which has events that were not published"
			}
			return dropped >= 3 && kept
		})
	})
	eventually(t, pool, 0, pendingIn("outbox"))
	a.verify(t, topic)
	newReader(t, early).ids(t, 1) // it was moved

	createTopic(t, missing, 1)
	id := ask[string](t, pool, `SELECT id::text FROM outbox WHERE parked_at IS NOT NULL`)
	if _, err := o.Requeue(t.Context(), pool, id); err != nil {
		t.Fatal(err)
	}
	newReader(t, missing).ids(t, 1)
	partitionsUntil(t, pool, 2, "the partition of the requeued event",
		func([]string) bool { return !ask[bool](t, pool, `SELECT to_regclass($1) IS NOT NULL`, holder) })
}

func newProducer(tb testing.TB, cfg relay.Config) *relay.Producer {
	tb.Helper()
	cfg.Options = append(cfg.Options, kgo.SeedBrokers(servers.Kafka(tb).Addr()))
	p, err := relay.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

func newClient(tb testing.TB, options ...kgo.Opt) *kgo.Client {
	tb.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(servers.Kafka(tb).Addr()))...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}

// createTopic creates a topic. settings are pairs of names and values of its configuration.
func createTopic(tb testing.TB, name string, partitions int32, settings ...string) {
	tb.Helper()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(settings); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = settings[i], &settings[i+1]
		t.Configs = append(t.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(tb.Context(), newClient(tb))
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// newTopic creates a topic and returns its name.
func newTopic(tb testing.TB, partitions int32, settings ...string) string {
	tb.Helper()
	name := unique("topic")
	createTopic(tb, name, partitions, settings...)
	return name
}

// reader reads a topic from its start.
type reader struct {
	client *kgo.Client
	all    []*kgo.Record
}

func newReader(tb testing.TB, topics ...string) *reader {
	tb.Helper()
	return &reader{client: newClient(tb, kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(100*time.Millisecond))}
}

// until reads until enough returns true.
func (r *reader) until(tb testing.TB, what string, enough func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	for !enough() {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			tb.Fatalf("waiting for %s: only %d records after %v", what, len(r.all), patience)
		}
		r.all = append(r.all, fetches.Records()...)
	}
}

// ids reads until it has n distinct events and returns their IDs in the order of their first records.
func (r *reader) ids(tb testing.TB, n int) []string {
	tb.Helper()
	var ids []string
	seen := make(map[string]bool)
	at := 0
	r.until(tb, fmt.Sprint(n, " events"), func() bool {
		for ; at < len(r.all); at++ {
			if id := idOf(r.all[at]); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		return len(ids) >= n
	})
	return ids
}

func idOf(r *kgo.Record) string {
	for _, h := range r.Headers {
		if h.Key == outbox.IDHeader {
			return string(h.Value)
		}
	}
	return ""
}

// What a broker answers to events that it does not take, from the name of their topic to their size, concerns
// no other event.
func TestEventsThatABrokerDoesNotTakeAreParkedAlone(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	topic, compacted, small := newTopic(t, 1), newTopic(t, 1, "cleanup.policy", "compact"), newTopic(t, 1, "max.message.bytes", "1000")
	random := `(SELECT decode(string_agg(md5(random()::text), ''), 'hex') FROM generate_series(1, 250))`
	execute(t, pool, fmt.Sprintf(`INSERT INTO `+table+` (id, aggregatetype, aggregateid, payload)
		SELECT gen_random_uuid(), topic, key, value FROM (VALUES
			(repeat('x', 40000), 'k'::bytea, 'bad'::bytea), (repeat('x', 300), 'k', 'bad'), ('a b', 'k', 'bad'), ('..', 'k', 'bad'),
			('тема', 'k', 'bad'), ('%[1]s-missing', `+random+`, 'bad'), ('__consumer_offsets', 'k', 'bad'),
			('%[2]s', NULL, 'bad'), ('%[3]s', 'k', `+random+`), ('%[1]s', 'large', repeat('x', 50000000)::bytea))
			AS e (topic, key, value)`, topic, compacted, small))
	const bad, good = 10, 50
	for i := range good {
		publish(t, pool, o, outbox.Event{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	run(t, pool, o, newProducer(t, relay.Config{}), pgoutbox.RelayConfig{MaxAttempts: 2, RetryDelay: 10 * time.Millisecond,
		PollInterval: 10 * time.Millisecond})
	eventually(t, pool, 0, pendingIn(table))
	if n := ask[int](t, pool, `SELECT count(*) FROM `+table+` WHERE parked_at IS NOT NULL AND attempts = 2 AND failure <> ''`); n != bad {
		t.Errorf("%d events are parked, want %d", n, bad)
	}
	r := newReader(t, topic)
	r.ids(t, good)
	if len(r.all) != good {
		t.Errorf("%d records of %d events", len(r.all), good)
	}
}
