package esm_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

func TestEveryRecordOnceInOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5)
	produce(t, c, 100, 0, 1, 2, 3, 4)
	cfg := config()
	cfg.BatchSize, cfg.Pollers = 30, 3
	f, w := new(function), new(watcher)
	p := parts(c, f.invoker)
	p.Observe = w.Observe
	mustRun(t, cfg, p)
	next, mixed := make(map[string]int), false
	for _, call := range f.short() {
		places := strings.Fields(call)
		if len(places) > 30 {
			t.Errorf("a batch of %d", len(places))
		}
		for _, place := range places {
			partition, offset, _ := strings.Cut(place, "@")
			if offset != fmt.Sprint(next[partition]) {
				t.Fatalf("%s was delivered, want offset %d", place, next[partition])
			}
			next[partition]++
			mixed = mixed || !strings.HasPrefix(place, places[0][:2])
		}
	}
	if len(next) != 5 || next["4"] != 100 || !mixed {
		t.Errorf("delivered %v, batches with several partitions: %v", next, mixed)
	}
	if _, n := w.of(esm.Committed); n != 500 {
		t.Errorf("%d records committed", n)
	}
	if f.closed != 3 {
		t.Errorf("%d of 3 pollers closed their invoker", f.closed)
	}
}

// Committed offsets override the starting position, also those of an earlier run.
func TestStartingPositions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for i := range 3 {
		write(t, c, &kgo.Record{Topic: topic, Value: []byte("x"),
			Timestamp: time.UnixMilli(int64(i+1) * 1000)})
	}
	for name, test := range map[string]struct {
		position string
		at       int64
		want     []string
	}{
		"horizon": {esm.TrimHorizon, 0, []string{"0@0 0@1 0@2"}}, "latest": {esm.Latest, 0, nil},
		"between": {esm.AtTimestamp, 1500, []string{"0@1 0@2"}}, "future": {esm.AtTimestamp, 1e6, nil},
	} {
		cfg := config()
		cfg.ConsumerGroup, cfg.StartingPosition = name, test.position
		if test.at > 0 {
			cfg.StartingPositionTimestamp = time.UnixMilli(test.at)
		}
		f := new(function)
		mustRun(t, cfg, parts(c, f.invoker))
		check(t, name, f.short(), test.want)
	}
	cfg := config()
	cfg.ConsumerGroup, cfg.StartingPosition = "horizon", esm.TrimHorizon
	write(t, c, &kgo.Record{Topic: topic, Value: []byte("x")})
	f := new(function)
	mustRun(t, cfg, parts(c, f.invoker))
	check(t, "the group's second run", f.short(), []string{"0@3"})
}

func TestLatestReadsNewRecords(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 3, 0)
	cfg := config()
	cfg.StartingPosition, cfg.BatchSize = esm.Latest, 1
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		stop()
		return esm.Answer{}, nil
	}}
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(),
		Invoker: func(context.Context, int) (esm.Invoker, error) {
			go func() { // the positions are known when pollers get their invokers
				produce(t, c, 1, 0)
			}()
			return f, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@3"})
	if s := m.Partitions(); len(s) != 1 || s[0].Committed != 4 || s[0].InFlight != 0 {
		t.Errorf("%+v: finished records are committed when the mapping stops", s)
	}
}

func TestFilteredRecordsAreCommitted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	write(t, c, &kgo.Record{Topic: topic, Value: []byte(`{"u":"a"}`)},
		&kgo.Record{Topic: topic, Value: []byte(`{"u":"b"}`)},
		&kgo.Record{Topic: topic, Value: []byte(`{"u":"c"}`)})
	for want, pattern := range map[string]string{"0@1": `["b"]`, "": `["x"]`} {
		f, w := new(function), new(watcher)
		cfg := config()
		cfg.ConsumerGroup = "group" + want
		cfg.FilterCriteria = fmt.Sprintf(`{"Filters":[{"Pattern":%q}]}`, `{"value":{"u":`+pattern+`}}`)
		p := parts(c, f.invoker)
		p.Observe = w.Observe
		mustRun(t, cfg, p) // it ends: nothing lags
		check(t, pattern, f.short(), strings.Fields(want))
		if _, n := w.of(esm.Filtered); n != 3-len(strings.Fields(want)) {
			t.Errorf("%d filtered", n)
		}
	}
}

// A stopping mapping waits for running invocations, and commits the finished records.
func TestStopWaitsForInvocations(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 4, 0)
	ctx, stop := context.WithCancel(t.Context())
	f := &function{answer: func(_ context.Context, got []string) (esm.Answer, error) {
		stop()
		return naming(got[2], got[3])
	}}
	cfg := config()
	cfg.BatchSize, cfg.FunctionResponseTypes = 4, []string{esm.ReportBatchItemFailures}
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(), Invoker: f.invoker})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2 0@3"})
	next := new(function)
	mustRun(t, cfg, parts(c, next.invoker))
	check(t, "the next run", next.short(), []string{"0@2 0@3"})
}

// A stopping mapping aborts an invocation after the function's timeout, and commits nothing of its batch.
func TestStopAbortsAfterTheTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 1, 0)
	ctx, stop := context.WithCancel(t.Context())
	f := &function{answer: func(ctx context.Context, _ []string) (esm.Answer, error) {
		stop()
		<-ctx.Done()
		return esm.Answer{}, context.Cause(ctx)
	}}
	cfg := config()
	cfg.Timeout = time.Second
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(), Invoker: f.invoker})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if s := m.Partitions(); s[0].Committed != 0 {
		t.Errorf("%+v", s)
	}
}

// While one poller is blocked, the other processes its partitions.
func TestPollersWorkConcurrently(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	produce(t, c, 3, 0, 1)
	other := make(chan struct{})
	var once sync.Once
	f := &function{answer: func(ctx context.Context, got []string) (esm.Answer, error) {
		if strings.HasPrefix(got[0], "payments-0") {
			select {
			case <-other:
			case <-ctx.Done():
				return esm.Answer{}, context.Cause(ctx)
			}
		} else if got[0] == "payments-1@2" {
			once.Do(func() { close(other) })
		}
		return esm.Answer{}, nil
	}}
	cfg := config()
	cfg.Pollers, cfg.BatchSize = 8, 1 // more than there are partitions
	mustRun(t, cfg, parts(c, f.invoker))
	if n := len(f.short()); n != 6 {
		t.Errorf("%d invocations", n)
	}
}
