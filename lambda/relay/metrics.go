package main

import (
	"encoding/json"
	"io"
	"time"

	"github.com/idemsk/idemsk/lambda/msk"
)

// metrics writes every batch as one line of CloudWatch's embedded metric format, with the namespace and the dimension of
// msk.EMF.
type metrics struct {
	out      io.Writer
	function string
	now      func() time.Time
}

type metric struct{ Name, Unit string }

func (m *metrics) report(d *delivery) {
	now := m.now()
	counts := []struct {
		name string
		n    int
	}{
		{"OutboxItems", d.records}, {"OutboxPublished", d.result.Published}, {"OutboxRejected", d.result.Rejected},
		{"OutboxParked", d.result.Parked + d.parked}, {"OutboxFailed", d.failed},
	}
	line := map[string]any{"OutboxAge": millis(d.age(now)), "OutboxDuration": millis(now.Sub(d.begun))}
	list := []metric{{"OutboxAge", "Milliseconds"}, {"OutboxDuration", "Milliseconds"}}
	for _, c := range counts {
		line[c.name] = c.n
		list = append(list, metric{c.name, "Count"})
	}
	dimensions := []string{}
	if m.function != "" { // CloudWatch does not accept an empty value
		line["FunctionName"] = m.function
		dimensions = append(dimensions, "FunctionName")
	}
	line["_aws"] = map[string]any{
		"Timestamp": now.UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace": msk.MetricsNamespace, "Dimensions": [][]string{dimensions}, "Metrics": list,
		}},
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // not reached: numbers and strings can be encoded
	}
	_, _ = m.out.Write(append(text, '\n')) // an error can't be reported: standard output is the log
}

// age returns the time since the oldest of the items was committed.
func (d *delivery) age(now time.Time) time.Duration {
	var oldest time.Duration
	for i := range d.items {
		oldest = max(oldest, now.Sub(d.items[i].CreatedAt))
	}
	return oldest
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
