package marked

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Function is a function to which the records of failures are delivered.
type Function struct {
	Namespace string
	Store     store.Store
	Engine    idem.Config
	// see kafka.Config
	Batch func(context.Context, [][]kafka.Record) (context.Context, func(*kafka.Batch))
	// returns the handler to call; nil: that of the failure
	Within func(kafka.HandlerFunc) kafka.HandlerFunc
}

// Outputs is what a function has written.
type Outputs struct {
	// log, metrics, errors, and dead letters without their records, by what they are
	Texts   map[string]string
	Letters []kafka.DeadLetter
}

// Deliver delivers the records of a failure twice: the second time they find what the first one left.
func (f Function) Deliver(tb testing.TB, failing Failure) (out Outputs) {
	tb.Helper()
	var log, metrics, errs bytes.Buffer
	var letters sink
	records := kafka.Config{
		Namespace: f.Namespace, Key: failing.key, Fingerprint: failing.fingerprint, Batch: f.Batch,
		DeadLetters: &letters,
		Logger:      slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	switch failing.fault {
	case held:
		f.hold(tb)
	case unsent:
		letters.err = errBoom
	case noLetter:
		records.DeadLetters = nil
	case none, down, lost:
	}
	engine, err := idem.New(&faulty{f.Store, failing.fault}, f.Engine)
	if err != nil {
		tb.Fatal(err)
	}
	handler := failing.handler
	if handler == nil {
		handler = func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }
	}
	if f.Within != nil {
		handler = f.Within(handler)
	}
	function, err := msk.New(engine, handler,
		eventsource.Config{Records: records, Failures: eventsource.FailBatch, Report: eventsource.EMF(&metrics, "ledger")})
	if err != nil {
		tb.Fatal(err)
	}
	event := mskevent.MSK("arn", "broker").Event(len(failing.records),
		func(i int) *mskevent.Record { return &failing.records[i] })
	for range 2 {
		ctx, cancel := context.WithTimeout(tb.Context(), 3*time.Second)
		if _, err := function.Invoke(ctx, event); err != nil {
			errs.WriteString(err.Error())
		}
		cancel()
	}
	out = Outputs{Letters: letters.sent,
		Texts: map[string]string{"log": log.String(), "metrics": metrics.String(), "error": errs.String()}}
	for _, l := range letters.sent {
		text, _ := json.Marshal(WithoutRecord(l))
		out.Texts["dead letter"] += string(text)
	}
	if out.Texts["error"]+out.Texts["dead letter"] == "" &&
		!strings.Contains(log.String(), `"level":"WARN"`) {
		tb.Error("nothing failed")
	}
	return out
}

// hold claims the marked key for another owner.
func (f Function) hold(tb testing.TB) {
	tb.Helper()
	key, err := store.Key(f.Namespace+"#payments#"+Key, f.Engine.HashKeys)
	if err == nil {
		claim := store.ClaimRequest{Key: key, Owner: "another", Lease: time.Hour, Retention: time.Hour}
		err = f.Store.Claim(tb.Context(), []store.ClaimRequest{claim})[0].Err
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// WithoutRecord returns a letter that was too large for each part of its record.
func WithoutRecord(l kafka.DeadLetter) kafka.DeadLetter {
	for smaller, err := l.Reduce(); err == nil; smaller, err = l.Reduce() {
		l = smaller
	}
	return l
}

// Check looks for marks in texts by what they are: no text may have a value, and with hashed keys none may
// have a key.
func Check(tb testing.TB, hashed bool, texts map[string]string) {
	tb.Helper()
	for of, text := range texts {
		if strings.Contains(text, Value) {
			tb.Errorf("the %s has the value: %s", of, text)
		}
		if hashed && strings.Contains(text, Key) {
			tb.Errorf("the %s has the key: %s", of, text)
		}
	}
}

// sink keeps dead letters, or refuses them.
type sink struct {
	err  error
	sent []kafka.DeadLetter
}

// Send implements kafka.DeadLetters.
func (s *sink) Send(_ context.Context, l kafka.DeadLetter) error {
	if s.err == nil {
		s.sent = append(s.sent, l)
	}
	return s.err
}

// faulty is a store with a fault.
type faulty struct {
	store.Store
	fault fault
}

// Claim implements store.Store.
func (s *faulty) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if s.fault != down {
		return s.Store.Claim(ctx, reqs)
	}
	results := make([]store.ClaimResult, len(reqs))
	for i := range results {
		results[i].Err = errBoom
	}
	return results
}

// Settle implements store.Store.
func (s *faulty) Settle(ctx context.Context, ss []store.Settlement) []error {
	if s.fault != lost {
		return s.Store.Settle(ctx, ss)
	}
	errs := make([]error, len(ss))
	for i := range ss {
		errs[i] = errBoom
		if ss[i].Op != store.OpComplete {
			errs[i] = cmp.Or(s.Store.Settle(ctx, ss[i:i+1])...)
		}
	}
	return errs
}
