package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/schedule"
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
			results []schedule.Result, err error) {
			for _, r := range rs {
				calls = append(calls, string(r.Record.Value))
				if string(r.Record.Value) == "X" {
					results = append(results, schedule.Result{Err: failed})
					continue
				}
				results = append(results, schedule.Result{Value: r.Record.Value})
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
		"no database": func(context.Context, []kafka.RecordAttempt) ([]schedule.Result, error) {
			return nil, errors.New("no database")
		},
		"returned 0 results for 1 records": func(context.Context, []kafka.RecordAttempt) ([]schedule.Result, error) {
			return nil, nil
		},
	} {
		many, _ := kafka.Converted(h, upper).(kafka.BulkAttempts)
		if _, err := many(t.Context(), rs); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v; want one that says %q", err, says)
		}
	}
}

// A call ends when its records have grown too much. Those that are left are handled alone: their attempt is
// not counted.
func TestConvertedRecordsThatGrow(t *testing.T) {
	grow := func(_ context.Context, r *kafka.Record) error { r.Value = make([]byte, 20<<20); return nil }
	var calls []string
	handler := kafka.Converted(kafka.BulkAttempts(func(_ context.Context, rs []kafka.RecordAttempt) (
		[]schedule.Result, error) {
		var offsets []string
		for _, r := range rs {
			offsets = append(offsets, fmt.Sprint(r.Record.Offset, "#", r.Attempt.Number))
		}
		calls = append(calls, strings.Join(offsets, " "))
		return make([]schedule.Result, len(rs)), nil
	}), grow)
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{RetryDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := kafka.NewProcessor(engine, handler, kafka.Config{Namespace: "n", Key: kafka.OffsetKey,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	records := make([]kafka.Record, 4)
	for i := range records {
		records[i] = kafka.Record{Topic: "t", Offset: int64(i)}
	}
	for range 2 {
		p.Run(t.Context(), "", [][]kafka.Record{records})
	}
	if got := strings.Join(calls, ", "); got != "0#1 1#1, 2#1, 3#1" {
		t.Errorf("the calls are %s", got)
	}
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
