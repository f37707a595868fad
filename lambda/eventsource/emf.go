package eventsource

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// MetricsNamespace is the CloudWatch namespace of EMF.
const MetricsNamespace = "idemsk"

// EMF returns a Config.Report that writes every batch as one line of CloudWatch's embedded metric format.
// CloudWatch Logs extracts the metrics, so no request is needed. The only dimension is FunctionName. There is
// none if function is empty, because CloudWatch does not accept empty values.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
func EMF(w io.Writer, function string) func(ctx context.Context, r kafka.Report) {
	var mu sync.Mutex
	return func(_ context.Context, r kafka.Report) {
		line, err := json.Marshal(emfLine(r, function, time.Now()))
		if err != nil {
			return // not reached: numbers and strings can be encoded
		}
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(append(line, '\n')) // an error can't be reported: standard output is the log
	}
}

type emfMetric struct {
	Name string
	Unit string
}

const (
	unitCount  = "Count"
	unitMillis = "Milliseconds"
)

func emfLine(r kafka.Report, function string, now time.Time) map[string]any {
	line := map[string]any{"RecordAge": millis(r.RecordAge), "InProgressAge": millis(r.InProgressAge)}
	dimensions := []string{}
	if function != "" {
		line["FunctionName"] = function
		dimensions = append(dimensions, "FunctionName")
	}
	metrics := []emfMetric{{"RecordAge", unitMillis}, {"InProgressAge", unitMillis}}
	for _, m := range []struct {
		name string
		n    int
	}{
		{"Executed", r.Executed}, {"Replayed", r.Replayed}, {"ReplayedFailed", r.ReplayedFailed},
		{"Duplicates", r.Duplicates},
		{"InFlight", r.InFlight}, {"Stolen", r.Stolen}, {"Fenced", r.Fenced}, {"Retried", r.Retried},
		{"DeadLettered", r.DeadLettered}, {"CompletionFailed", r.CompletionFailed},
		{"FailedOpen", r.FailedOpen},
		{"NotStarted", r.NotStarted}, {"StoreDown", r.StoreDown},
		{"Overruns", r.Overruns},
		{"Blocked", r.Blocked}, {"Reported", r.Reported},
		{"HandlerDown", r.HandlerDown}, {"BatchSize", r.Records},
	} {
		line[m.name] = m.n
		metrics = append(metrics, emfMetric{m.name, unitCount})
	}
	if r.FailedCalls > 0 { // most functions have no calls of several records, and each metric costs
		line["FailedCalls"], line["FailedCallRecords"] = r.FailedCalls, r.FailedCallRecords
		metrics = append(metrics, emfMetric{"FailedCalls", unitCount}, emfMetric{"FailedCallRecords", unitCount})
	}
	if len(r.StoreLatency) > 0 {
		line["StoreLatency"] = quantiles(r.StoreLatency)
		metrics = append(metrics, emfMetric{"StoreLatency", unitMillis})
	}
	line["_aws"] = map[string]any{
		"Timestamp": now.UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace": MetricsNamespace, "Dimensions": [][]string{dimensions}, "Metrics": metrics,
		}},
	}
	return line
}

// maxValues is the maximum number of values that the format allows for a metric.
const maxValues = 100

// quantiles returns the values in milliseconds. If there are more than maxValues, it returns maxValues evenly
// spaced ones of the sorted values, including the smallest and the largest, so that percentiles stay correct.
func quantiles(ds []time.Duration) []float64 {
	sorted := slices.Sorted(slices.Values(ds))
	n := min(len(sorted), maxValues)
	values := make([]float64, n)
	for i := range values {
		at := 0
		if n > 1 {
			at = i * (len(sorted) - 1) / (n - 1)
		}
		values[i] = millis(sorted[at])
	}
	return values
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
