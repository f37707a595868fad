package telemetry

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/observe"
)

// meters are the instruments.
type meters struct {
	common  []attribute.KeyValue
	process metric.Float64Histogram // messaging.process.duration
	store   metric.Float64Histogram
	records metric.Int64Counter
	stolen  metric.Int64Counter
	lost    metric.Int64Counter
	down    metric.Int64Counter
	calls   metric.Int64Counter
}

func newMeters(m metric.Meter, common []attribute.KeyValue) (*meters, error) {
	seconds := func(name, what string) (metric.Float64Histogram, error) {
		return m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what),
			metric.WithExplicitBucketBoundaries(
				// the boundaries of messaging.process.duration
				0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10))
	}
	counter := func(name, unit, what string) (metric.Int64Counter, error) {
		return m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
	}
	all := &meters{common: common}
	var errs [7]error
	all.process, errs[0] = seconds("messaging.process.duration", "Duration of processing operation.")
	all.store, errs[1] = seconds("idemsk.store.duration", "Duration of claims and settlements.")
	all.records, errs[2] = counter("idemsk.records", "{record}", "Tries of records, by outcome.")
	all.stolen, errs[3] = counter("idemsk.claims.stolen", "{claim}",
		"Claims that took a key from an owner whose lease had ended.")
	all.lost, errs[4] = counter("idemsk.leases.lost", "{lease}",
		"Claims that were lost while the handler ran.")
	all.down, errs[5] = counter("idemsk.handler.down", "{record}",
		"Tries that failed or were not started during an outage of what the handler needs.")
	all.calls, errs[6] = counter("idemsk.calls.failed", "{call}",
		"Calls for several records that failed as a whole: each of their records was handled again, alone.")
	return all, errors.Join(errs[:]...)
}

// Observe implements idem.Observer: it records the metrics.
func (t *Telemetry) Observe(ctx context.Context, e idem.Event) {
	m := t.meters
	switch e.Step {
	case observe.Handle:
		m.process.Record(ctx, e.Took.Seconds(),
			m.with(ctx, e.Err, semconv.MessagingDestinationName(topicOf(e.Task.Source))))
	case observe.Claim:
		m.store.Record(ctx, e.Took.Seconds(), m.with(ctx, e.Err, operationKey.String("claim")))
		if e.Stolen {
			m.stolen.Add(ctx, 1, m.with(ctx, nil))
		}
	case observe.Settle:
		m.store.Record(ctx, e.Took.Seconds(), m.with(ctx, e.Err, operationKey.String(e.Op.String())))
	case observe.LeaseLost:
		m.lost.Add(ctx, 1, m.with(ctx, nil))
	case observe.End:
		outcome := e.Outcome.Kind.String()
		if e.Duplicate {
			outcome = "Duplicate"
		}
		m.records.Add(ctx, 1, m.with(ctx, nil, outcomeKey.String(outcome)))
		if errors.Is(e.Outcome.Err, idem.ErrHandlerDown) && !e.Duplicate {
			m.down.Add(ctx, 1, m.with(ctx, nil))
		}
	case observe.Overrun:
		m.records.Add(ctx, 1, m.with(ctx, nil, outcomeKey.String(e.Step.String())))
	case observe.FailedCall:
		m.calls.Add(ctx, 1, m.with(ctx, e.Err))
	case observe.Unknown, observe.Wait, observe.Release, observe.DeadLetter:
	}
}

// with returns the common attributes, the messaging system and others, and the type of an error.
func (m *meters) with(ctx context.Context, err error, others ...attribute.KeyValue) metric.MeasurementOption {
	all := append(slices.Concat(m.common, others), systemIn(ctx))
	if err != nil {
		all = append(all, errorType(err))
	}
	return metric.WithAttributes(all...)
}

// errorType returns the attribute error.type: the class of an error, of which there are few.
func errorType(err error) attribute.KeyValue {
	name := "error"
	var p *idem.PanicError
	switch {
	case errors.As(err, &p):
		name = "panic"
	case errors.Is(err, idem.ErrStoreUnavailable):
		name = "store_unavailable"
	case idem.IsPermanent(err):
		name = "permanent"
	case idem.IsUnavailable(err):
		name = "unavailable"
	}
	return semconv.ErrorTypeKey.String(name)
}

// topicOf returns the topic of a source, which is topic-partition@offset.
func topicOf(source string) string {
	place, _, _ := strings.Cut(source, "@")
	if dash := strings.LastIndexByte(place, '-'); dash > 0 {
		return place[:dash]
	}
	return source
}
