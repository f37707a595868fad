package layercall_test

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
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// function is a function that a Caller calls: it fails as the records tell it.
type function struct {
	t     *testing.T
	mu    sync.Mutex
	calls []string        // the records of each, as KEY#ATTEMPT
	seen  map[string]bool // the keys
}

// call is a layercall.Runtime. The value of a record says what becomes of its call: "crash" and "down" fail
// it the first time, "bad" names the record as failed.
func (f *function) call(ctx context.Context, event []byte) ([]byte, error) {
	decoded, err := msk.Decode(event)
	if err != nil || decoded.BootstrapServers != "b:9092" {
		f.t.Errorf("the event %s: %v; want one of the cluster b:9092", event, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var names, bad []string
	failed := error(nil)
	for _, r := range slices.Concat(decoded.Partitions...) {
		names = append(names, string(r.Key)+"#"+string(r.Headers[len(r.Headers)-1].Value))
		switch {
		case string(r.Value) == "bad":
			bad = append(bad, fmt.Sprintf(`{"itemIdentifier":{"partition":"%s","offset":%d}}`,
				r.PartitionID(), r.Offset))
		case string(r.Value) == "crash" && !f.seen[string(r.Key)]:
			failed = errors.New("the process ended")
		case string(r.Value) == "down" && !f.seen[string(r.Key)]:
			failed = idem.Unavailable(errors.New("it did not get the event"))
		}
		f.seen[string(r.Key)] = true
	}
	key, number, _ := strings.Cut(names[0], "#")
	if a, ok := idem.AttemptFrom(ctx); ok != (len(names) == 1) ||
		ok && (a.Key != "ledger#t#"+key || fmt.Sprint(a.Number) != number) {
		f.t.Errorf("the call of %v has the attempt %+v", names, a)
	}
	f.calls = append(f.calls, strings.Join(names, " "))
	return []byte(`{"batchItemFailures":[` + strings.Join(bad, ",") + `]}`), failed
}

// take returns the calls since the last take, sorted.
func (f *function) take() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	slices.Sort(calls)
	return strings.Join(calls, ", ")
}

// deliver delivers records, KEY=VALUE each, and returns their outcomes.
func deliver(t *testing.T, p *kafka.Processor, records ...string) string {
	t.Helper()
	var partition []kafka.Record
	for i, text := range records {
		key, value, _ := strings.Cut(text, "=")
		partition = append(partition, kafka.Record{Topic: "t", Offset: int64(i), TimestampType: "CREATE_TIME",
			Timestamp: time.UnixMilli(1_700_000_000_000).UTC(), Key: []byte(key), Value: []byte(value)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var outcomes []string
	batch := p.Run(ctx, "b:9092", [][]kafka.Record{partition})
	for i := range batch.Partitions[0] {
		outcomes = append(outcomes, batch.Partitions[0][i].Outcome.Kind.String())
	}
	return strings.Join(outcomes, " ")
}

// A Caller's answers are those of a function behind the layer. If a call fails as a whole, its records are called one
// by one, and those of the other calls are done. Records for which an event has no room are in a later call.
func TestCallsOfAProcess(t *testing.T) {
	t.Parallel()
	const (
		roomy = 1 << 20
		small = 600 // bytes of an event with two records
	)
	for name, tc := range map[string]struct {
		calls, records, event int
		deliveries            []delivery
	}{
		"one call": {1, 100, roomy, []delivery{
			{"a=1 b=bad c=2", "a#1 b#1 c#1", "Executed Retry Executed"},
			{"a=1 b=bad c=2", "b#2", "Replayed Retry Replayed"},
		}},
		"one call fails": {1, 100, roomy, []delivery{{"a=1 b=crash c=2", "a#1, a#1 b#1 c#1, b#1, c#1",
			"Executed Executed Executed"}}},
		"one of two calls fails": {2, 3, roomy, []delivery{
			{"a=1 b=2 c=crash d=3 e=4", "a#1, a#1 b#1 c#1, b#1, c#1, d#1 e#1", "Executed Executed Executed Executed Executed"},
		}},
		"one of two calls does not reach the function": {2, 3, roomy, []delivery{
			{"a=1 b=2 c=down d=3 e=4", "a#1 b#1 c#1, d#1 e#1",
				"DependencyDown DependencyDown DependencyDown Executed Executed"},
			{"a=1 b=2 c=down d=3 e=4", "a#1 b#1 c#1", "Executed Executed Executed Replayed Replayed"},
		}},
		"two calls of one record": {2, 1, roomy, []delivery{{"a=1 b=crash", "a#1, b#1", "Executed Retry"}}},
		"events without room": {1, 100, small, []delivery{
			{"a=1 b=2 c=3 d=4 e=5", "a#1 b#1, c#1 d#1, e#1", "Executed Executed Executed Executed Executed"},
		}},
		"an event of one record that is too large": {1, 100, 10, []delivery{
			{"a=1 b=2 c=3", "a#1, b#1, c#1", "Executed Executed Executed"},
		}},
		"a call fails whose event had no room for others": {1, 100, small, []delivery{
			{"a=1 b=crash c=3 d=4", "a#1 b#1, c#1 d#1", "Retry Retry Executed Executed"},
			{"a=1 b=crash c=3 d=4", "a#1, b#1", "Executed Executed Replayed Replayed"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &function{t: t, seen: make(map[string]bool)}
				c := &layercall.Caller{Runtime: f.call, Cluster: "b:9092", MaxEvent: tc.event}
				expect(t, kafka.BulkAttempts(c.Many), kafka.Config{Calls: tc.calls, CallRecords: tc.records}, f, tc.deliveries)
			})
		})
	}
}

// At most once, a record for which an event had no room is called later, also if that call fails.
func TestRecordsWithoutRoomAreCalledAtMostOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &function{t: t, seen: make(map[string]bool)}
		c := &layercall.Caller{Runtime: f.call, Cluster: "b:9092", MaxEvent: 600}
		expectOf(t, idem.Config{AtMostOnce: true}, kafka.BulkAttempts(c.Many), kafka.Config{DeadLetters: discarding{}}, f,
			[]delivery{{"a=1 b=crash c=3 d=4", "a#1 b#1, c#1 d#1", "DeadLettered DeadLettered Executed Executed"}})
	})
}

// discarding are kafka.DeadLetters.
type discarding struct{}

func (discarding) Send(context.Context, kafka.DeadLetter) error { return nil }

// Each makes a call for each record, in the order of the lanes.
func TestCallsOfOneRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &function{t: t, seen: make(map[string]bool)}
		c := &layercall.Caller{Runtime: f.call, Cluster: "b:9092", MaxEvent: 1 << 20}
		expect(t, kafka.HandlerFunc(c.Each), kafka.Config{}, f, []delivery{
			{"a=1 b=bad c=2 d=crash", "a#1, b#1, c#1, d#1", "Executed Retry Executed Retry"},
			{"a=1 b=bad c=2 d=crash", "b#2, d#2", "Replayed Retry Replayed Executed"},
		})
	})
}

// delivery is a delivery of records with the calls that it makes and the outcomes that it has.
type delivery struct{ records, calls, outcomes string }

func expect(t *testing.T, handler kafka.Handler, cfg kafka.Config, f *function, deliveries []delivery) {
	t.Helper()
	expectOf(t, idem.Config{MaxAttempts: 5}, handler, cfg, f, deliveries)
}

func expectOf(t *testing.T, of idem.Config, handler kafka.Handler, cfg kafka.Config, f *function, deliveries []delivery) {
	t.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), of)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cfg.Key, cfg.Namespace, cfg.Order = kafka.RecordKey, "ledger", kafka.ByKey
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	p, err := kafka.NewProcessor(engine, handler, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deliveries {
		outcomes := deliver(t, p, strings.Fields(d.records)...)
		if calls := f.take(); calls != d.calls || outcomes != d.outcomes {
			t.Errorf("%s: calls %s, outcomes %s; want %s and %s\n%s", d.records, calls, outcomes, d.calls,
				d.outcomes, &log)
		}
		<-time.After(time.Minute) // beyond each delay
	}
}
