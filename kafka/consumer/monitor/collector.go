package monitor

import (
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// Collector is a prometheus.Collector of a consumer. Its counters are the metrics of a Lambda function (msk.EMF) in the spelling of
// Prometheus: DeadLettered is idemsk_dead_lettered_total. It is safe for concurrent use. There should be one for a consumer, because
// it takes the reports of the consumer.
type Collector struct {
	consumer *consumer.Consumer
	latency  prometheus.Histogram

	mu     sync.Mutex
	totals map[string]float64
}

// NewCollector returns a collector.
func NewCollector(c *consumer.Consumer) *Collector {
	return &Collector{consumer: c, totals: make(map[string]float64), latency: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "idemsk_store_latency_seconds", Help: "Latency of claims and settlements: a sample of at most 1,000 for each collection.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14), //nolint:mnd // 1 ms to 8 s
	})}
}

// count is a counter of a report.
type count struct {
	name, help string
	of         func(r *kafka.Report) int
}

// counts are the counters, with the names that msk.EMF has.
func counts() []count {
	return []count{
		{"Records", "Tries of records.", func(r *kafka.Report) int { return r.Records }},
		{"Executed", "Records that were executed.", func(r *kafka.Report) int { return r.Executed }},
		{"Replayed", "Records whose result was replayed.", func(r *kafka.Report) int { return r.Replayed }},
		{"ReplayedFailed", "Records whose key had failed before.", func(r *kafka.Report) int { return r.ReplayedFailed }},
		{"Duplicates", "Records that shared the outcome of another one in progress.", func(r *kafka.Report) int { return r.Duplicates }},
		{"InFlight", "Tries that found the key in flight elsewhere.", func(r *kafka.Report) int { return r.InFlight }},
		{"Stolen", "Claims taken from an owner whose lease was over.", func(r *kafka.Report) int { return r.Stolen }},
		{"Fenced", "Claims lost while the handler ran.", func(r *kafka.Report) int { return r.Fenced }},
		{"Retried", "Tries that failed and are repeated.", func(r *kafka.Report) int { return r.Retried }},
		{"DeadLettered", "Records sent to the dead letters.", func(r *kafka.Report) int { return r.DeadLettered }},
		{"CompletionFailed", "Completions that could not be stored.", func(r *kafka.Report) int { return r.CompletionFailed }},
		{"FailedOpen", "Records executed without protection, because the store was down.", func(r *kafka.Report) int { return r.FailedOpen }},
		{"Unprotected", "Records executed without protection, as configured.", func(r *kafka.Report) int { return r.Unprotected }},
		{"NotStarted", "Tries that were not started.", func(r *kafka.Report) int { return r.NotStarted }},
		{"StoreDown", "Tries that failed because the store was down.", func(r *kafka.Report) int { return r.StoreDown }},
		{"Overruns", "Handlers that did not return in time.", func(r *kafka.Report) int { return r.Overruns }},
		{"Blocked", "Tries that ended in an outcome that an operator must resolve.", func(r *kafka.Report) int { return r.Blocked }},
	}
}

// Describe implements prometheus.Collector. The collector is unchecked, because it has a metric for each assigned partition.
func (*Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.consumer.Report()
	for _, m := range counts() {
		c.totals[m.name] += float64(m.of(&r))
		desc := prometheus.NewDesc("idemsk_"+snake(m.name)+"_total", m.help, nil, nil)
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, c.totals[m.name])
	}
	for _, d := range r.StoreLatency {
		c.latency.Observe(d.Seconds())
	}
	c.latency.Collect(to)
	gauge(to, "record_age_seconds", "Age of the oldest record since the last collection.", r.RecordAge.Seconds(), nil)
	gauge(to, "in_progress_age_seconds", "Greatest time since the first claim of a key that was not settled, since the last collection.",
		r.InProgressAge.Seconds(), nil)
	c.collectState(to)
}

func (c *Collector) collectState(to chan<- prometheus.Metric) {
	s := c.consumer.Stats()
	gauge(to, "joined", "1 if the process is a member of the group.", number(s.Joined), nil)
	gauge(to, "retrying_lanes", "Lanes that wait to try a record again.", float64(s.Retrying), nil)
	gauge(to, "blocked_lanes", "Lanes that wait for an operator.", float64(s.Blocked), nil)
	names := []string{"topic", "partition"}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		at := []string{p.Topic, strconv.Itoa(int(p.Partition))}
		gauge(to, "window_records", "Records from the first that is not settled to the last that was read.", float64(p.Records), names, at...)
		gauge(to, "window_bytes", "Bytes of these records.", float64(p.Bytes), names, at...)
		gauge(to, "waiting_seconds", "How long the first unsettled record has been the first.", p.Waiting.Seconds(), names, at...)
		gauge(to, "paused", "1 if the partition is not fetched, because its window is full or after an error.", number(p.Paused), names, at...)
		if p.Lag >= 0 {
			gauge(to, "lag", "Offsets from the first record that is not settled to the end.", float64(p.Lag), names, at...)
		}
	}
}

func gauge(to chan<- prometheus.Metric, name, help string, value float64, labels []string, of ...string) {
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc("idemsk_"+name, help, labels, nil), prometheus.GaugeValue, value, of...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
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
