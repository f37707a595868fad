package monitor

import (
	"context"
	"strings"
	"sync"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Outcomes counts what happens to records. It is an idem.Observer, for idem.Config, and a
// prometheus.Collector. Its counters are the metrics of a Lambda function (eventsource.EMF) in the spelling of
// Prometheus: DeadLettered is idemsk_dead_lettered_total. It is safe for concurrent use.
type Outcomes struct {
	latency prometheus.Histogram

	mu     sync.Mutex
	report kafka.Report // its ages are those since the last collection
}

// NewOutcomes returns counters.
func NewOutcomes() *Outcomes {
	return &Outcomes{latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "idemsk_store_latency_seconds", Help: "Latency of claims and settlements.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), //nolint:mnd // 1 ms to 8 s
	})}
}

// Observe implements idem.Observer.
func (o *Outcomes) Observe(_ context.Context, e idem.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report.Add(&e)
	for _, d := range o.report.StoreLatency {
		o.latency.Observe(d.Seconds())
	}
	o.report.StoreLatency = o.report.StoreLatency[:0]
}

// count is a counter of a report.
type count struct {
	name, help string
	of         func(r *kafka.Report) int
}

// counts are the counters, with the names that eventsource.EMF has.
func counts() []count {
	return []count{
		{"Records", "Tries of records.", func(r *kafka.Report) int { return r.Records }},
		{"Executed", "Records that were executed.", func(r *kafka.Report) int { return r.Executed }},
		{"Replayed", "Records whose result was replayed.", func(r *kafka.Report) int { return r.Replayed }},
		{"ReplayedFailed", "Records whose key had failed before.",
			func(r *kafka.Report) int { return r.ReplayedFailed }},
		{"Duplicates", "Records that shared the outcome of another one in progress.",
			func(r *kafka.Report) int { return r.Duplicates }},
		{"InFlight", "Tries that found the key in flight elsewhere.",
			func(r *kafka.Report) int { return r.InFlight }},
		{"Stolen", "Claims taken from an owner whose lease was over.",
			func(r *kafka.Report) int { return r.Stolen }},
		{"Fenced", "Claims lost while the handler ran.", func(r *kafka.Report) int { return r.Fenced }},
		{"Retried", "Tries that failed and are repeated.", func(r *kafka.Report) int { return r.Retried }},
		{"DeadLettered", "Records sent to the dead letters.",
			func(r *kafka.Report) int { return r.DeadLettered }},
		{"CompletionFailed", "Completions that could not be stored.",
			func(r *kafka.Report) int { return r.CompletionFailed }},
		{"FailedOpen", "Records executed without protection, because the store was down.",
			func(r *kafka.Report) int { return r.FailedOpen }},
		{"NotStarted", "Tries that were not started.", func(r *kafka.Report) int { return r.NotStarted }},
		{"StoreDown", "Tries that failed because the store was down.",
			func(r *kafka.Report) int { return r.StoreDown }},
		{"Overruns", "Handlers that did not return in time.",
			func(r *kafka.Report) int { return r.Overruns }},
		{"Blocked", "Tries that ended in an outcome that an operator must resolve.",
			func(r *kafka.Report) int { return r.Blocked }},
		{"HandlerDown", "Tries that failed or were not started during an outage of what the handler needs.",
			func(r *kafka.Report) int { return r.HandlerDown }},
		{"FailedCalls", "Calls of several records that failed as a whole.",
			func(r *kafka.Report) int { return r.FailedCalls }},
		{"FailedCallRecords", "Records in these, whose effects may have taken place twice.",
			func(r *kafka.Report) int { return r.FailedCallRecords }},
	}
}

// Describe implements prometheus.Collector.
func (o *Outcomes) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(o, to) }

// Collect implements prometheus.Collector.
func (o *Outcomes) Collect(to chan<- prometheus.Metric) {
	o.mu.Lock()
	r := o.report
	o.report.RecordAge, o.report.InProgressAge = 0, 0
	o.mu.Unlock()
	for _, m := range counts() {
		desc := prometheus.NewDesc("idemsk_"+snake(m.name)+"_total", m.help, nil, nil)
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(m.of(&r)))
	}
	o.latency.Collect(to)
	gauge(to, "record_age_seconds", "Age of the oldest record since the last collection.",
		r.RecordAge.Seconds(), nil)
	gauge(to, "in_progress_age_seconds",
		"Greatest time since the first claim of a key that was not settled, since the last collection.",
		r.InProgressAge.Seconds(), nil)
}

// snake returns a name in the spelling of Prometheus: dead_lettered for DeadLettered.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
