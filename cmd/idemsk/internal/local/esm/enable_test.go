package esm_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

func TestDisableAndEnable(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 3, 0)
	var m *esm.ESM
	w := new(watcher)
	disabled := make(chan struct{})
	w.seen = func(e esm.Event) {
		if e.Kind == esm.Committed && m.Enabled() {
			m.SetEnabled(false)
			m.SetEnabled(false) // which changes nothing
			close(disabled)
		}
	}
	f := new(function)
	cfg := config()
	cfg.BatchSize = 1
	p := parts(c, f.invoker)
	p.Observe = w.Observe
	m, err := esm.New(cfg, p)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- m.Run(t.Context()) }()
	<-disabled
	if n := len(f.short()); n != 1 {
		t.Errorf("%d invocations when the mapping was disabled", n)
	}
	select {
	case err := <-ended:
		t.Fatalf("a mapping that is disabled ended, with records left: %v", err)
	case <-time.After(300 * time.Millisecond): // longer than a look for the end
	}
	if n := len(f.short()); n != 1 {
		t.Errorf("%d invocations while the mapping was disabled", n)
	}
	w.mu.Lock()
	w.seen = nil
	w.mu.Unlock()
	m.SetEnabled(true)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0", "0@1", "0@2"})
	if off, _ := w.of(esm.Disabled); off != 1 {
		t.Errorf("disabled %d times", off)
	}
}

// failing returns a mapping with a function that fails at first. The mapping was disabled during the second
// invocation.
func failing(t *testing.T, drain <-chan struct{}) (m *esm.ESM, f *function, repair func(),
	disabled <-chan struct{}) {
	t.Helper()
	c := newCluster(t, 1)
	produce(t, c, 3, 0)
	var repaired atomic.Bool
	off, calls := make(chan struct{}), 0
	f = &function{answer: func(context.Context, []string) (esm.Answer, error) {
		if calls++; calls == 2 {
			m.SetEnabled(false)
			close(off)
		}
		if repaired.Load() {
			return esm.Answer{}, nil
		}
		return failed()
	}}
	cfg := config()
	cfg.BatchSize = 3
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(), Invoker: f.invoker, Drain: drain})
	if err != nil {
		t.Fatal(err)
	}
	return m, f, func() { repaired.Store(true) }, off
}

// A failed batch is not retried while the mapping is disabled. It is retried when the mapping is enabled.
func TestDisablingStopsRetries(t *testing.T) {
	t.Parallel()
	m, f, repair, disabled := failing(t, drained())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(t.Context()) }()
	<-disabled
	select {
	case err := <-ended:
		t.Fatalf("a mapping that is disabled ended, with a batch left: %v", err)
	case <-time.After(300 * time.Millisecond): // many times the delay of a retry
	}
	check(t, "calls while it was disabled", f.short(), []string{"0@0 0@1 0@2", "0@0 0@1 0@2"})
	repair()
	m.SetEnabled(true)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2", "0@0 0@1 0@2", "0@0 0@1 0@2"})
}

// A stop ends a disabled mapping that has a batch to retry. Nothing of the batch is committed.
func TestStopEndsADisabledMapping(t *testing.T) {
	t.Parallel()
	m, f, _, disabled := failing(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	<-disabled
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s := m.Partitions(); len(f.short()) != 2 || s[0].Committed != 0 || s[0].InFlight != 0 {
		t.Errorf("%d calls, %+v", len(f.short()), s)
	}
}
