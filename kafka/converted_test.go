package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
)

var errNoText = errors.New("it is no text")

// upper converts values, but not those that begin with '!'.
func upper(_ context.Context, r *kafka.Record) error {
	if strings.HasPrefix(string(r.Value), "!") {
		return errNoText
	}
	r.Value = []byte(strings.ToUpper(string(r.Value)))
	return nil
}

// A bulk handler gets the records that can be converted, and each result is that of its own record. The
// records themselves stay as they are.
func TestConvertedRecordsOfACall(t *testing.T) {
	failed := errors.New("refused")
	for values, want := range map[string]struct{ calls, results string }{
		"a b c":   {"A B C", "A <nil>, B <nil>, C <nil>"},
		"!a b !c": {"B", " it is no text, B <nil>,  it is no text"},
		"!a !b":   {"", " it is no text,  it is no text"},
		"a !b x":  {"A X", "A <nil>,  it is no text,  refused"},
	} {
		var calls []string
		many, _ := kafka.Converted(kafka.BulkAttempts(func(_ context.Context, rs []kafka.RecordAttempt) (
			results []idem.BulkResult, err error) {
			for _, r := range rs {
				calls = append(calls, string(r.Record.Value))
				if string(r.Record.Value) == "X" {
					results = append(results, idem.BulkResult{Err: failed})
					continue
				}
				results = append(results, idem.BulkResult{Value: r.Record.Value})
			}
			return results, nil
		}), upper).(kafka.BulkAttempts)
		var rs []kafka.RecordAttempt
		for _, v := range strings.Fields(values) {
			rs = append(rs, kafka.RecordAttempt{Record: &kafka.Record{Value: []byte(v)}})
		}
		results, err := many(t.Context(), rs)
		var got []string
		for i, r := range results {
			got = append(got, fmt.Sprint(string(r.Value), " ", r.Err))
			if string(rs[i].Record.Value) != strings.Fields(values)[i] {
				t.Errorf("%s: the record %d was changed", values, i)
			}
		}
		if err != nil || strings.Join(got, ", ") != want.results || strings.Join(calls, " ") != want.calls {
			t.Errorf("%s: called with %v, results %q, %v; want %q", values, calls, got, err, want)
		}
	}
}

// A call that fails as a whole, or has another number of results, fails with the handler's error.
func TestConvertedCallThatFails(t *testing.T) {
	rs := []kafka.RecordAttempt{{Record: &kafka.Record{Value: []byte("a")}}}
	for says, h := range map[string]kafka.BulkAttempts{
		"no database": func(context.Context, []kafka.RecordAttempt) ([]idem.BulkResult, error) {
			return nil, errors.New("no database")
		},
		"returned 0 results for 1 records": func(context.Context, []kafka.RecordAttempt) ([]idem.BulkResult, error) {
			return nil, nil
		},
	} {
		many, _ := kafka.Converted(h, upper).(kafka.BulkAttempts)
		if _, err := many(t.Context(), rs); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v; want one that says %q", err, says)
		}
	}
}

// A call ends when its records have grown too much. Those that are left are handled alone, with the same
// attempt. So is, at most once too, each record for which the handler was not called.
func TestRecordsForWhichTheHandlerIsNotCalled(t *testing.T) {
	for name, tc := range map[string]struct {
		convert func(ctx context.Context, r *kafka.Record) error
		calls   string // of two deliveries
	}{
		"too large for one call": {
			func(_ context.Context, r *kafka.Record) error { r.Value = make([]byte, 20<<20); return nil },
			"0#1 1#1, 2#1 3#1",
		},
		"a record that can't be converted yet": {
			func(ctx context.Context, r *kafka.Record) error {
				if r.Offset == 1 && ctx.Value(firstDelivery{}) != nil {
					return errors.New("no such schema yet")
				}
				return nil
			},
			"0#1, 1#2, 2#1 3#1",
		},
		"no schema within the time of the call": {
			func(ctx context.Context, r *kafka.Record) error {
				if r.Offset < 3 || ctx.Value(firstDelivery{}) == nil {
					return nil
				}
				<-ctx.Done()
				return idem.Unavailable(fmt.Errorf("waiting for the schema: %w", context.Cause(ctx)))
			},
			"0#1 1#1 2#1, 3#1",
		},
	} {
		for _, atMostOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/at most once %t", name, atMostOnce), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					calls := callsOfTwoDeliveries(t, tc.convert, idem.Config{AtMostOnce: atMostOnce, RetryDelay: -1})
					if got := strings.Join(calls, ", "); got != tc.calls {
						t.Errorf("the calls are %s; want %s", got, tc.calls)
					}
				})
			})
		}
	}
}

// firstDelivery is in the context of the first delivery.
type firstDelivery struct{}

// callsOfTwoDeliveries delivers four records twice, and returns the offsets and attempts of each call. The time
// of a delivery is a minute.
func callsOfTwoDeliveries(t *testing.T, convert func(ctx context.Context, r *kafka.Record) error,
	cfg idem.Config) (calls []string) {
	t.Helper()
	handler := kafka.Converted(kafka.BulkAttempts(func(_ context.Context, rs []kafka.RecordAttempt) (
		[]idem.BulkResult, error) {
		var offsets []string
		for _, r := range rs {
			offsets = append(offsets, fmt.Sprint(r.Record.Offset, "#", r.Attempt.Number))
		}
		calls = append(calls, strings.Join(offsets, " "))
		return make([]idem.BulkResult, len(rs)), nil
	}), convert)
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p, err := kafka.NewProcessor(engine, handler, kafka.Config{Namespace: "n", Key: kafka.OffsetKey,
		DeadLetters: noLetters{t}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	records := make([]kafka.Record, 4)
	for i := range records {
		records[i] = kafka.Record{Topic: "t", Offset: int64(i)}
	}
	ctx := context.WithValue(t.Context(), firstDelivery{}, true)
	for range 2 {
		within, cancel := context.WithTimeout(ctx, time.Minute)
		p.Run(within, "", [][]kafka.Record{records})
		cancel()
		ctx = t.Context()
	}
	return calls
}

// noLetters are kafka.DeadLetters that get none.
type noLetters struct{ *testing.T }

// Send implements kafka.DeadLetters.
func (n noLetters) Send(_ context.Context, l kafka.DeadLetter) error {
	n.Errorf("a dead letter of %s: %+v", l.Source(), l.Error)
	return nil
}

func TestConvertedSingleRecord(t *testing.T) {
	each, _ := kafka.Converted(kafka.HandlerFunc(func(_ context.Context, r kafka.Record) ([]byte, error) {
		return r.Value, nil
	}), upper).(kafka.HandlerFunc)
	if out, err := each(t.Context(), kafka.Record{Value: []byte("a")}); string(out) != "A" || err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := each(t.Context(), kafka.Record{Value: []byte("!a")}); out != nil || !errors.Is(err, errNoText) {
		t.Errorf("%s, %v", out, err)
	}
	if h, _ := kafka.Converted(kafka.HandlerFunc(nil), upper).(kafka.HandlerFunc); h != nil {
		t.Error("a handler that is nil must stay nil, so that it is refused")
	}
}
