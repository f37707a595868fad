package monitor

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idemsk/idemsk/kafka/consumer"
)

// Collector is a prometheus.Collector of the state of a consumer. [Outcomes] counts what happens to its
// records.
type Collector struct{ consumer *consumer.Consumer }

// NewCollector returns a collector.
func NewCollector(c *consumer.Consumer) *Collector { return &Collector{consumer: c} }

// Describe implements prometheus.Collector. The collector is unchecked, because it has a metric for each
// assigned partition.
func (*Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	s := c.consumer.Stats()
	gauge(to, "joined", "1 if the process is a member of the group.", number(s.Joined), nil)
	gauge(to, "retrying_lanes", "Lanes that wait to try a record again.", float64(s.Retrying), nil)
	gauge(to, "blocked_lanes", "Lanes that wait for an operator.", float64(s.Blocked), nil)
	names := []string{"topic", "partition"}
	const failing, failingHelp = "failing_seconds", "How long the partition can't be read, or its offset can't be committed; " +
		"0 if nothing fails. Without a partition: how long the topic has not existed."
	for _, t := range s.Missing {
		gauge(to, failing, failingHelp, t.Missing.Seconds(), names, t.Topic, "")
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		at := []string{p.Topic, strconv.Itoa(int(p.Partition))}
		gauge(to, "window_records", "Records from the first that is not settled to the last that was read.",
			float64(p.Records), names, at...)
		gauge(to, "window_bytes", "Bytes of these records.", float64(p.Bytes), names, at...)
		gauge(to, "waiting_seconds", "How long the first unsettled record has been the first.",
			p.Waiting.Seconds(), names, at...)
		gauge(to, failing, failingHelp, p.Failing.Seconds(), names, at...)
		gauge(to, "paused", "1 if the partition is not fetched, because its window is full or after an error.", number(p.Paused), names, at...)
		if p.Lag >= 0 {
			gauge(to, "lag", "Offsets from the first record that is not settled to the end.", float64(p.Lag),
				names, at...)
		}
	}
}

func gauge(to chan<- prometheus.Metric, name, help string, value float64, labels []string, of ...string) {
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc("idemsk_"+name, help, labels, nil),
		prometheus.GaugeValue, value, of...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
