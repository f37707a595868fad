package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/kafka"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letters records dead letters.
type letters struct {
	mu  sync.Mutex
	all []kafka.DeadLetter
}

// Send implements kafka.DeadLetters.
func (l *letters) Send(_ context.Context, letter kafka.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, letter)
	return nil
}

func newBulkProcessor(t *testing.T, handler kafka.Handler, cfg kafka.Config) *kafka.Processor {
	t.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{MaxAttempts: 2})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Namespace, cfg.Logger = "ledger", slog.New(slog.DiscardHandler)
	if cfg.Key == nil {
		cfg.Key = kafka.RecordKey
	}
	p, err := kafka.NewProcessor(engine, handler, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func record(offset int64, key string) kafka.Record {
	return kafka.Record{Topic: "payments", Partition: 3, Offset: offset, Key: []byte(key),
		Value: []byte("value of " + key)}
}

func kinds(b *kafka.Batch) string {
	var all []string
	for _, messages := range b.Partitions {
		for i := range messages {
			all = append(all, messages[i].Outcome.Kind.String())
		}
	}
	return strings.Join(all, " ")
}

// A bulk handler gets the records for which a Handler would be called. Rejected records, and records without
// attempts left, get a dead letter.
func TestBulkHandler(t *testing.T) {
	var calls [][]string
	var dead letters
	bulk := func(_ context.Context, rs []kafka.Record) ([]error, error) {
		var keys []string
		errs := make([]error, len(rs))
		for i, r := range rs {
			keys = append(keys, string(r.Key))
			if string(r.Key) == "bad" {
				errs[i] = errors.New("no such account")
			}
		}
		calls = append(calls, keys)
		return errs, nil
	}
	p := newBulkProcessor(t, kafka.BulkHandler(bulk), kafka.Config{DeadLetters: &dead, Order: kafka.Unordered})
	other := record(4, "a")
	other.Value = []byte("another value")
	undecodable := record(6, "x")
	undecodable.Undecodable = &kafka.DecodeError{Source: "payments-3@6", Field: "value",
		Err: errors.New("not base64")}
	records := [][]kafka.Record{{record(1, "a"), record(2, "bad"), record(3, "a"), other, record(5, ""),
		undecodable, record(7, "b")}, {}}
	for delivery, want := range []struct{ calls, kinds string }{
		{"[[a bad b]]", "Executed Retry Executed DeadLettered DeadLettered DeadLettered Executed"},
		{"[[a bad b] [bad]]", "Replayed DeadLettered Replayed ReplayedFailed ReplayedFailed ReplayedFailed Replayed"},
		{"[[a bad b] [bad]]", "Replayed ReplayedFailed Replayed ReplayedFailed ReplayedFailed ReplayedFailed Replayed"},
	} {
		b := p.Run(t.Context(), "", records)
		if got := kinds(b); got != want.kinds || fmt.Sprint(calls) != want.calls {
			t.Errorf("delivery %d: %s, calls %v; want %s, %s", delivery, got, calls, want.kinds, want.calls)
		}
	}
	var offsets []int64
	for _, l := range dead.all {
		offsets = append(offsets, l.Offset)
	}
	if slices.Sort(offsets); !slices.Equal(offsets, []int64{2, 4, 5, 6}) {
		t.Errorf("dead letters of offsets %v", offsets)
	}
}

func TestBulkHandlerWithTooFewErrorsIsRetried(t *testing.T) {
	bulk := func(context.Context, []kafka.Record) ([]error, error) { return nil, nil }
	p := newBulkProcessor(t, kafka.BulkHandler(bulk), kafka.Config{Order: kafka.Unordered})
	b := p.Run(t.Context(), "", [][]kafka.Record{{record(1, "a"), record(2, "b")}})
	for i := range b.Partitions[0] {
		if m := &b.Partitions[0][i]; m.Outcome.Kind != idem.Retry ||
			!strings.Contains(m.Err().Error(), "0 results for 1 records") {
			t.Errorf("%s: %v, %v", m.Record.Source(), m.Outcome.Kind, m.Err())
		}
	}
}

// A line that is logged with the context of a record names the record.
func TestLogLinesOfABulkHandler(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(observe.LogHandler(slog.NewTextHandler(&out, nil)))
	bulk := func(ctx context.Context, rs []kafka.RecordAttempt) ([]idem.BulkResult, error) {
		for i := range rs {
			logger.InfoContext(rs[i].Context(), "handled")
		}
		logger.InfoContext(ctx, "all")
		return make([]idem.BulkResult, len(rs)), nil
	}
	newBulkProcessor(t, kafka.BulkAttempts(bulk), kafka.Config{}).Run(t.Context(), "",
		[][]kafka.Record{{record(1, "a"), record(2, "b")}})
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"source=payments-3@1 key=ledger#payments#a attempt=1 token=",
		"source=payments-3@2 key=ledger#payments#b attempt=1 token=", "msg=all"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) ||
			strings.Contains(lines[i], "source") != (i < 2) {
			t.Errorf("line %d of %q does not have %s", i, lines, want)
		}
	}
}

// A handler with attempts gets the token and the number of each record's attempt, and its results are stored
// and replayed.
func TestBulkAttempts(t *testing.T) {
	var calls [][]kafka.RecordAttempt
	bulk := func(_ context.Context, rs []kafka.RecordAttempt) ([]idem.BulkResult, error) {
		calls = append(calls, rs)
		results := make([]idem.BulkResult, len(rs))
		for i, r := range rs {
			results[i].Value = []byte("result of " + string(r.Record.Key))
			if string(r.Record.Key) == "bad" {
				results[i].Err = errors.New("no such account")
			}
		}
		return results, nil
	}
	p := newBulkProcessor(t, kafka.BulkAttempts(bulk), kafka.Config{DeadLetters: new(letters)})
	records := [][]kafka.Record{{record(1, "a"), record(2, "bad")}}
	p.Run(t.Context(), "", records)
	b := p.Run(t.Context(), "", records)
	if got := kinds(b); got != "Replayed DeadLettered" {
		t.Errorf("kinds %s", got)
	}
	if got := string(b.Partitions[0][0].Outcome.Result); got != "result of a" {
		t.Errorf("the replayed result is %q", got)
	}
	if len(calls) != 2 || len(calls[0]) != 2 || len(calls[1]) != 1 {
		t.Fatalf("calls %v", calls)
	}
	first, second := calls[0][1].Attempt, calls[1][0].Attempt
	if first.Number != 1 || second.Number != 2 || first.Token <= 0 || second.Token <= first.Token ||
		second.Source != "payments-3@2" {
		t.Errorf("attempts %+v and %+v", first, second)
	}
}

func TestNewProcessorRefusesInvalidConfigurations(t *testing.T) {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handler := kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) { return nil, nil })
	for name, refused := range map[string]func() error{
		"no engine": func() error {
			_, err := kafka.NewProcessor(nil, handler,
				kafka.Config{Namespace: "n"})
			return err
		},
		"no handler": func() error {
			_, err := kafka.NewProcessor(engine, nil,
				kafka.Config{Namespace: "n"})
			return err
		},
		"nil functions": func() error {
			for _, none := range []kafka.Handler{kafka.HandlerFunc(nil), kafka.BulkHandler(nil), kafka.BulkAttempts(nil)} {
				if _, err := kafka.NewProcessor(engine, none, kafka.Config{Namespace: "n"}); err == nil {
					return nil
				}
			}
			_, err := kafka.NewProcessor(engine, kafka.HandlerFunc(nil), kafka.Config{Namespace: "n"})
			return err
		},
		"no namespace": func() error {
			_,
				err := kafka.NewProcessor(engine, handler, kafka.Config{})
			return err
		},
	} {
		if err := refused(); !errors.Is(err, idem.ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In a stream, a call has records of all partitions that came while the call before was in progress. A record
// that fails is tried again alone, and costs the others nothing.
func TestBulkHandlerOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{MaxAttempts: 2, CommitWindow: 50})
		if err != nil {
			t.Fatal(err)
		}
		var dead letters
		var sizes []int
		alone := map[string]int{}
		bulk := func(_ context.Context, rs []kafka.Record) ([]error, error) {
			<-time.After(time.Second)
			sizes = append(sizes, len(rs))
			errs := make([]error, len(rs))
			for i, r := range rs {
				if string(r.Value) == "30" {
					errs[i] = errors.New("no such account")
				}
				if len(rs) == 1 {
					alone[string(r.Value)]++
				}
			}
			return errs, nil
		}
		p, err := kafka.NewProcessor(engine, kafka.BulkHandler(bulk), kafka.Config{Namespace: "ledger", Key: kafka.ValueHashKey,
			DeadLetters: &dead, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		kinds := map[idem.Kind]int{}
		stream := p.Stream(t.Context(), "", func(m *kafka.Message) {
			mu.Lock()
			defer mu.Unlock()
			kinds[m.Outcome.Kind]++
		})
		for i := range 100 {
			stream.Add(kafka.Record{Topic: "payments", Partition: int32(i % 3), Offset: int64(i),
				Value: fmt.Append(nil, i)})
		}
		<-time.After(time.Hour)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if kinds[idem.Executed] != 99 || kinds[idem.DeadLettered] != 1 || len(dead.all) != 1 {
			t.Errorf("outcomes %v, %d dead letters", kinds, len(dead.all))
		}
		if len(sizes) > 6 || slices.Max(sizes) < 45 || alone["30"] != 1 {
			t.Errorf("calls of %v records, alone %v", sizes, alone)
		}
		if running := stream.Close(t.Context()); len(running) > 0 {
			t.Errorf("%d records have not ended", len(running))
		}
	})
}

// A record without a key that could not be identified at first has the key of its place, as it had when it was
// rejected. The bulk handler is called for it once it is identified.
func TestBulkHandlerOfARecordThatIsIdentifiedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead letters
		var called, identified atomic.Int64
		bulk := func(_ context.Context, rs []kafka.Record) ([]error, error) {
			called.Add(int64(len(rs)))
			return make([]error, len(rs)), nil
		}
		p := newBulkProcessor(t, kafka.BulkHandler(bulk), kafka.Config{DeadLetters: &dead, MissingKey: kafka.Process,
			Key: func(context.Context, *kafka.Record) (string, error) {
				if identified.Add(1) < 3 {
					return "", idem.Unavailable(errors.New("the registry is down"))
				}
				return "", kafka.ErrNoKey
			}})
		ended := make(chan idem.Kind, 1)
		stream := p.Stream(t.Context(), "", func(m *kafka.Message) { ended <- m.Outcome.Kind })
		stream.Add(record(0, ""))
		if kind := <-ended; kind != idem.Executed || called.Load() != 1 || len(dead.all) > 0 {
			t.Errorf("%v after %d calls, dead letters %v; want Executed after 1, and none", kind, called.Load(),
				dead.all)
		}
		if running := stream.Close(t.Context()); len(running) > 0 {
			t.Errorf("%d records have not ended", len(running))
		}
	})
}
