package esm_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Without ReportBatchItemFailures the answer is ignored, as on AWS. The observer gets each lost record once.
func TestIgnoredFailuresAreObserved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 4, 0)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		return esm.Answer{Payload: []byte(
			`{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-0","offset":1}},{"itemIdentifier":{"partition":"payments-0","offset":3}}]}`)}, nil
	}}
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observe, p.Faults = w.Observe, new(again)
	cfg := config()
	cfg.BatchSize = 4
	mustRun(t, cfg, p)
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2 0@3", "0@0 0@1 0@2 0@3"})
	ignored, done := 0, 0
	for _, e := range w.events {
		if e.Kind == esm.Ignored {
			ignored += e.Records
		}
		if e.Kind == esm.Committed {
			done += e.Records
		}
	}
	if ignored != 2 || done != 2 {
		t.Errorf("%d ignored, %d done; want 2 and 2", ignored, done)
	}
}

func TestBisect(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 5, 0)
	f := &function{answer: func(_ context.Context, got []string) (esm.Answer, error) {
		if slices.Contains(got, "payments-0@3") {
			return failed()
		}
		return esm.Answer{}, nil
	}}
	cfg := config()
	cfg.BatchSize, cfg.BisectBatchOnFunctionError, cfg.MaximumRetryAttempts, cfg.OnFailure = 5, true, 1, "arn"
	l := new(letters)
	p := parts(c, f.invoker)
	p.Destination = l
	mustRun(t, cfg, p)
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2 0@3 0@4", "0@0 0@1", "0@2 0@3 0@4", "0@2", "0@3 0@4",
		"0@3", "0@3", "0@4"})
	if len(l.failures) != 1 || len(l.failures[0].Records) != 1 ||
		l.failures[0].Condition != esm.RetryAttemptsExhausted || l.failures[0].Records[0].Offset != 3 {
		t.Errorf("%+v", l.failures)
	}
}

func TestPartialResponses(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string][]string{
		esm.RetryNamed:      {"0@0 0@1 0@2 0@3", "0@1", "0@1"},
		esm.RetryFromLowest: {"0@0 0@1 0@2 0@3", "0@1 0@2 0@3", "0@1 0@2 0@3"},
	} {
		c := newCluster(t, 1)
		produce(t, c, 4, 0)
		n := 0
		f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
			if n++; n <= 2 {
				return naming("payments-0@1")
			}
			return naming()
		}}
		cfg := config()
		cfg.Retry, cfg.BatchSize, cfg.FunctionResponseTypes = retry, 4, []string{esm.ReportBatchItemFailures}
		mustRun(t, cfg, parts(c, f.invoker))
		check(t, retry, f.short(), want)
	}
}

func TestUnparsableAnswerFailsTheBatch(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`"ok"`,
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-0","offset":99}}]}`} {
		c := newCluster(t, 1)
		produce(t, c, 2, 0)
		n := 0
		f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
			if n++; n == 1 {
				return esm.Answer{Payload: []byte(bad)}, nil
			}
			return naming()
		}}
		w := new(watcher)
		cfg := config()
		cfg.BatchSize, cfg.FunctionResponseTypes = 2, []string{esm.ReportBatchItemFailures}
		p := parts(c, f.invoker)
		p.Observe = w.Observe
		mustRun(t, cfg, p)
		check(t, bad, f.short(), []string{"0@0 0@1", "0@0 0@1"})
		if n, _ := w.of(esm.Misanswered); n != 1 {
			t.Errorf("%d answers were found unreadable", n)
		}
	}
}

func TestUnavailableFunctionIsRetried(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 1, 0)
	n := 0
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		if n++; n <= 3 {
			return esm.Answer{}, &esm.UnavailableError{Err: errors.New("throttled")}
		}
		return esm.Answer{}, nil
	}}
	cfg := config()
	cfg.MaximumRetryAttempts = 0 // throttles don't count
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observe = w.Observe
	mustRun(t, cfg, p)
	if k, _ := w.of(esm.Unavailable); k != 3 {
		t.Errorf("%d times unavailable", k)
	}
	broken := errors.New("no such function")
	f = &function{answer: func(context.Context, []string) (esm.Answer, error) { return esm.Answer{}, broken }}
	produce(t, c, 1, 0)
	if err := run(t, cfg, parts(c, f.invoker)); !errors.Is(err, broken) || f.closed != 1 {
		t.Errorf("%v, closed %d", err, f.closed)
	}
}

// again repeats the first batch once.
type again struct{ done bool }

func (a *again) Again(first mskevent.Place) bool {
	if a.done {
		return false
	}
	a.done = true
	return first.String() == "payments-0@0"
}
