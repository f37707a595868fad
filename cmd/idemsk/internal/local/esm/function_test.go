package esm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// function is an invoker that records its invocations. All pollers share it.
type function struct {
	answer func(ctx context.Context, got []string) (esm.Answer, error) // nil: nothing ever fails

	mu     sync.Mutex
	calls  []string // the places of each event, as "payments-0@1 payments-1@0"
	closed int
}

func (f *function) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	b, err := mskevent.Parse(inv.Batch, inv.Payload)
	if err != nil {
		return esm.Answer{}, err
	}
	var got []string
	for _, r := range b.Records {
		got = append(got, mskevent.Place{Partition: r.PartitionID, Offset: r.Offset}.String())
	}
	f.mu.Lock()
	f.calls = append(f.calls, strings.Join(got, " "))
	f.mu.Unlock()
	if f.answer == nil {
		return esm.Answer{Payload: []byte("null")}, nil
	}
	return f.answer(ctx, got)
}

func (f *function) Close(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
}

func (f *function) invoker(context.Context, int) (esm.Invoker, error) { return f, nil }

// short returns the calls without the topic's name.
func (f *function) short() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []string
	for _, c := range f.calls {
		calls = append(calls, strings.ReplaceAll(c, topic+"-", ""))
	}
	return calls
}

func failed() (esm.Answer, error) {
	return esm.Answer{RequestID: "id", FunctionError: "Unhandled", Message: "boom"}, nil
}

// naming returns an answer that names records as failed.
func naming(places ...string) (esm.Answer, error) {
	var items []string
	for _, p := range places {
		partition, offset, _ := strings.Cut(p, "@")
		items = append(items, fmt.Sprintf(`{"itemIdentifier":{"partition":%q,"offset":%s}}`, partition,
			offset))
	}
	return esm.Answer{Payload: []byte(`{"batchItemFailures":[` + strings.Join(items, ",") + `]}`)}, nil
}

// parts returns the parts of a mapping that ends when nothing is left to deliver.
func parts(c *kfake.Cluster, invoker func(context.Context, int) (esm.Invoker, error)) esm.Parts {
	return esm.Parts{Brokers: c.ListenAddrs(), Invoker: invoker, Drain: drained()}
}

// watcher records the events of a mapping.
type watcher struct {
	mu     sync.Mutex
	events []esm.Event
	seen   func(e esm.Event)
}

func (w *watcher) Observe(e esm.Event) {
	w.mu.Lock()
	w.events = append(w.events, e)
	w.mu.Unlock()
	if w.seen != nil {
		w.seen(e)
	}
}

// of returns the number of records in events of a kind.
func (w *watcher) of(kind esm.Kind) (events, records int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			events++
			records += e.Records
		}
	}
	return events, records
}

// letters is an on-failure destination.
type letters struct {
	mu       sync.Mutex
	failures []*esm.Failure
	refuse   int // so often
}

func (l *letters) String() string { return "the letters" }

func (l *letters) Send(_ context.Context, f *esm.Failure) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse > 0 {
		l.refuse--
		return errors.New("refused")
	}
	l.failures = append(l.failures, f)
	return nil
}

func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}
