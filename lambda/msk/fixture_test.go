package msk_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

var (
	errBoom    = errors.New("boom")
	errNetwork = errors.New("connection refused")
)

// timeout is the timeout of the tests' function.
const timeout = 5 * time.Minute

// fixture is a consumer with its surroundings. What outlives the process is in the store, the letters and the
// ledger. A test sets engine and cfg before the first delivery.
type fixture struct {
	t       testing.TB
	engine  idem.Config
	cfg     eventsource.Config
	store   *spy
	ledger  *ledger
	letters *letters
	log     *logbook
	reports []kafka.Report
	end     func() // ends the invocation

	consumer *msk.Consumer
}

func newFixture(t testing.TB) *fixture {
	s := &fixture{t: t, store: &spy{Store: memstore.New(memstore.Config{})}, ledger: newLedger(),
		letters: &letters{}, log: &logbook{}}
	s.cfg = eventsource.Config{
		Records: kafka.Config{
			Namespace: "ledger", Function: "ledger", DeadLetters: s.letters,
			Logger: slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
		Failures: eventsource.FailPartial, Report: func(_ context.Context,
			r kafka.Report) {
			s.reports = append(s.reports, r)
		},
	}
	return s
}

// start creates the consumer of a new process.
func (s *fixture) start() *msk.Consumer {
	s.t.Helper()
	s.engine.RetryDelay = cmp.Or(s.engine.RetryDelay, -1)
	engine, err := idem.New(s.store, s.engine)
	if err != nil {
		s.t.Fatal(err)
	}
	s.consumer, err = msk.New(engine, msk.HandlerFunc(s.ledger.handle), s.cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.consumer
}

// process delivers records to the current process, with a deadline as in Lambda.
func (s *fixture) process(records ...record) (msk.Response, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.processUnder(ctx, batchOf(s.t, records...))
}

func (s *fixture) processUnder(ctx context.Context, event *msk.Event) (msk.Response, error) {
	s.t.Helper()
	if s.consumer == nil {
		s.start()
	}
	return s.consumer.Process(ctx, event)
}

// deliver is process for batches that must not fail. It returns the places that are to be delivered again.
func (s *fixture) deliver(records ...record) []string {
	s.t.Helper()
	resp, err := s.process(records...)
	if err != nil {
		s.t.Fatal(err)
	}
	return places(resp)
}

func places(resp msk.Response) []string {
	var out []string
	for _, f := range resp.BatchItemFailures {
		out = append(out, place(f.ItemIdentifier.Partition, f.ItemIdentifier.Offset))
	}
	return out
}

// last is the report of the last batch.
func (s *fixture) last() kafka.Report {
	s.t.Helper()
	if len(s.reports) == 0 {
		s.t.Fatal("no batch was reported")
	}
	return s.reports[len(s.reports)-1]
}

// get returns the entry of a key.
func (s *fixture) get(key string) store.Entry {
	s.t.Helper()
	entry, err := s.store.Get(context.Background(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	return entry
}

// keys are the stored keys and the states that they are in.
func (s *fixture) keys() map[string]store.Status {
	keys := map[string]store.Status{}
	for entry, err := range s.store.List(context.Background(), store.ListQuery{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		keys[entry.Key] = entry.Status
	}
	return keys
}

// placeKey is the stored key of a record that has no key of its own, "" if there is none.
func (s *fixture) placeKey(place string) string {
	s.t.Helper()
	for key := range s.keys() {
		if rest, ok := strings.CutPrefix(key, "ledger@"+place); ok && (rest == "" || rest[0] == '@') {
			return key
		}
	}
	return ""
}

// ledger is a handler whose behaviour for a record depends on the idempotency key. It books one effect for
// each call that succeeds.
type ledger struct {
	book   msk.HandlerFunc // does the same for every record, if not nil
	atomic bool            // effects commit with their completions

	mu      sync.Mutex
	on      map[string]func(ctx context.Context, r msk.Record) error
	calls   map[string]int // by key
	effects map[string]int // by key
	order   []string       // places, as they were begun
	running int
	most    int  // records that ran at once
	dead    bool // the process has died: no effect any more
}

func newLedger() *ledger {
	return &ledger{on: map[string]func(context.Context, msk.Record) error{}, calls: map[string]int{},
		effects: map[string]int{}}
}

func (l *ledger) handle(ctx context.Context, r msk.Record) ([]byte, error) {
	key := keyOf(&r)
	l.mu.Lock()
	l.calls[key]++
	l.order = append(l.order, r.Source())
	l.running++
	l.most = max(l.most, l.running)
	do := l.on[key]
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}()
	result := []byte("receipt of " + key)
	var err error
	switch {
	case do != nil:
		err = do(ctx, r)
	case l.book != nil:
		result, err = l.book(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	book := func() { l.effects[key]++ }
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead:
		return nil, errDead
	case l.atomic:
		return result, l.enlist(ctx, book)
	}
	book()
	return result, nil
}

func (l *ledger) enlist(ctx context.Context, book func()) error {
	tx, err := memstore.TxFrom(ctx)
	if err != nil {
		return err
	}
	tx.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		book()
	})
	return nil
}

// keyOf is a record's idempotency key, or its place.
func keyOf(r *msk.Record) string {
	for v := range r.Header(kafka.DefaultKeyHeader) {
		return string(v)
	}
	return r.Source()
}

// fails makes the ledger fail for a key.
func (l *ledger) fails(key string, err error) {
	l.on[key] = func(context.Context, msk.Record) error { return err }
}

// takes makes the ledger take its time for a key.
func (l *ledger) takes(key string, d time.Duration) {
	l.on[key] = func(context.Context, msk.Record) error {
		pass(d)
		return nil
	}
}

func (l *ledger) total() int {
	n := 0
	for k := range maps.Values(l.effects) {
		n += k
	}
	return n
}

// letters records dead letters.
type letters struct {
	mu   sync.Mutex
	sent []kafka.DeadLetter
	on   func(ctx context.Context, l kafka.DeadLetter) error // decides on each
}

// Send implements kafka.DeadLetters.
func (d *letters) Send(ctx context.Context, l kafka.DeadLetter) error {
	d.mu.Lock()
	on := d.on
	d.mu.Unlock()
	if on != nil {
		if err := on(ctx, l); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent = append(d.sent, l)
	return nil
}

// sources are the places that letters came from, sorted.
func (d *letters) sources() []string {
	var out []string
	for i := range d.sent {
		out = append(out, d.sent[i].Source())
	}
	slices.Sort(out)
	return out
}

// logbook is a slog handler's writer: one line a write.
type logbook struct {
	mu    sync.Mutex
	lines []map[string]any
	raw   bytes.Buffer
}

// Write implements io.Writer.
func (l *logbook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, err
	}
	l.lines = append(l.lines, fields)
	l.raw.Write(line)
	return len(line), nil
}

// of returns the lines with a message, "batch" or "record".
func (l *logbook) of(message string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(l.lines),
		func(line map[string]any) bool { return line["msg"] != message })
}

// about returns the last line of a record, nil if it has none.
func (l *logbook) about(source string) map[string]any {
	for _, line := range slices.Backward(l.of("record")) {
		if line["source"] == source {
			return line
		}
	}
	return nil
}

// pass waits for d of the synctest bubble's time.
func pass(d time.Duration) { <-time.After(d) }

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}

func equalSlices[T comparable](t testing.TB, what string, got []T, want ...T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v; want %v", what, got, want)
	}
}

func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v; want one that is %v", err, target)
		}
	}
}

// wantContains checks that a text contains all wanted parts.
func wantContains(t testing.TB, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not contain %q", text, want)
		}
	}
}
