// Package prom has the metrics of reconciliations for Prometheus. It is not in package reconcile, so that the
// maintenance function does not contain the client of Prometheus.
package prom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idemsk/idemsk/internal/reconcile"
)

// Metrics describe the last reconciliation that succeeded, and count those that failed. They are safe for
// concurrent use.
type Metrics struct {
	keys, overdue, failed, inProgress prometheus.Gauge
	rows, matched, differences        prometheus.Gauge
	took, succeeded, lastFailed       prometheus.Gauge
	failures                          prometheus.Counter
}

// Register registers the metrics.
func Register(to prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "idemsk_reconcile_" + name, Help: help})
		to.MustRegister(g)
		return g
	}
	m := &Metrics{
		keys:    gauge("keys", "Keys that were read."),
		overdue: gauge("keys_overdue", "Keys that are STARTED, and whose lease or retry time is over."),
		failed:  gauge("keys_failed", "Keys that are FAILED."),
		inProgress: gauge("keys_in_progress_age_seconds",
			"The longest time since the first claim of a key that is STARTED."),
		rows:        gauge("export_rows", "Rows of the export of business records."),
		matched:     gauge("export_matched", "Rows whose key is COMPLETED."),
		differences: gauge("export_differences", "Keys and rows that differ."),
		took:        gauge("duration_seconds", "The duration of the reconciliation."),
		succeeded: gauge("last_success_timestamp_seconds",
			"When the last reconciliation succeeded, in seconds since 1970; 0 if none has."),
		lastFailed: gauge("last_run_failed",
			"1 if the last reconciliation failed, so that the other gauges are older; otherwise 0."),
		failures: prometheus.NewCounter(
			prometheus.CounterOpts{Name: "idemsk_reconcile_failures_total",
				Help: "Reconciliations that failed."}),
	}
	to.MustRegister(m.failures)
	return m
}

// Succeeded sets the metrics to those of a report. Took is the duration of the reconciliation.
func (m *Metrics) Succeeded(r *reconcile.Report, took time.Duration) {
	m.keys.Set(float64(r.Records))
	m.overdue.Set(float64(r.Found.Overdue))
	m.failed.Set(float64(r.Found.Failed))
	m.inProgress.Set(r.InProgress.Seconds())
	m.rows.Set(float64(r.Rows))
	m.matched.Set(float64(r.Matched))
	m.differences.Set(float64(r.Differences()))
	m.took.Set(took.Seconds())
	m.succeeded.SetToCurrentTime()
	m.lastFailed.Set(0)
}

// Failed counts a reconciliation that failed.
func (m *Metrics) Failed() {
	m.failures.Inc()
	m.lastFailed.Set(1)
}
