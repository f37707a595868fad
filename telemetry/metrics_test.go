package telemetry_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/kafka"
)

func TestMetrics(t *testing.T) {
	f := newFixture(t)
	f.invoke(func(_ context.Context, r kafka.Record) ([]byte, error) {
		if r.Offset == 1 {
			return nil, idem.Permanent(errors.New("no such account"))
		}
		return nil, nil
	}, record(t.Context(), payments, "a"),
		kafka.Record{Topic: payments, Offset: 1,
			Headers: []kafka.Header{{Key: "idempotency-key", Value: []byte("b")}}},
		kafka.Record{Topic: payments, Offset: 2, Value: []byte("{}"),
			Headers: []kafka.Header{{Key: "idempotency-key", Value: []byte("a")}}})
	f.Observe(t.Context(), idem.Event{Step: observe.Claim, Task: &idem.Task{}, Stolen: true,
		Took: time.Second, Err: idem.ErrStoreUnavailable})
	f.Observe(t.Context(), idem.Event{Step: observe.LeaseLost, Task: &idem.Task{}})
	f.Observe(t.Context(), idem.Event{Step: observe.Overrun, Task: &idem.Task{}})
	f.Observe(t.Context(), (&idem.Outcome{Kind: idem.Replayed}).End(
		&idem.Task{Source: "payments-1@1"}))
	f.Observe(t.Context(), (&idem.Outcome{Kind: idem.NotStarted, Err: idem.ErrHandlerDown}).End(
		&idem.Task{Source: "payments-1@2"}))
	f.Observe(t.Context(), idem.Event{Step: observe.FailedCall, Tasks: 3, Err: errors.New("exit status 1")})
	got := f.collect()
	for name, want := range map[string]int64{
		"messaging.process.duration payments": 1, "messaging.process.duration payments permanent": 1,
		"idemsk.records Executed": 1, "idemsk.records Duplicate": 1, "idemsk.records DeadLettered": 1,
		"idemsk.records Overrun":      1,
		"idemsk.store.duration claim": 2, "idemsk.store.duration claim store_unavailable": 1,
		"idemsk.store.duration complete": 1,
		"idemsk.store.duration fail":     1, "idemsk.claims.stolen": 1, "idemsk.leases.lost": 1,
		"idemsk.records Replayed":   1,
		"idemsk.records NotStarted": 1, "idemsk.handler.down": 1, "idemsk.calls.failed error": 1,
	} {
		if got[name] != want {
			t.Errorf("%s: %d; want %d", name, got[name], want)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("also: %v", got)
	}
}

// collect returns how often each metric was recorded. The names are followed by the attributes in which the
// points differ.
func (f *fixture) collect() map[string]int64 {
	f.Helper()
	var all metricdata.ResourceMetrics
	if err := f.metrics.Collect(f.Context(), &all); err != nil {
		f.Fatal(err)
	}
	got := make(map[string]int64)
	add := func(name string, set attribute.Set, n int64) {
		for _, key := range []attribute.Key{"idemsk.outcome", "idemsk.operation",
			"messaging.destination.name", "error.type"} {
			if v, ok := set.Value(key); ok {
				name += " " + v.AsString()
			}
		}
		got[name] += n
		if system, _ := set.Value("messaging.system"); system.AsString() != "kafka" {
			f.Errorf("%s is not of Kafka", name)
		}
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, int64(p.Count))
				}
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Value)
				}
			default:
				f.Errorf("%s: %T", m.Name, data)
			}
		}
	}
	return got
}
