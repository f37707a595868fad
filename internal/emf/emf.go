// Package emf writes CloudWatch's embedded metric format, for functions that do not consume records; package
// msk has those of a consumer.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
package emf

import (
	"encoding/json"
	"io"
	"time"
)

// Namespace is the CloudWatch namespace of the metrics, that of eventsource.EMF.
const Namespace = "idemsk"

// Metric is a value with its unit.
type Metric struct {
	name, unit string
	value      any
}

// Count returns a metric that counts something.
func Count(name string, n int) Metric { return Metric{name, "Count", n} }

// Duration returns a metric in milliseconds.
func Duration(name string, d time.Duration) Metric {
	return Metric{name, "Milliseconds", float64(d.Microseconds()) / 1000} //nolint:mnd // microseconds in a millisecond
}

// Write writes the metrics as one line. The only dimension is FunctionName. There is none if function is
// empty, because CloudWatch does not accept empty values. An error is not reported: w is the log.
func Write(w io.Writer, function string, now time.Time, metrics ...Metric) {
	type definition struct{ Name, Unit string }
	line, list, dimensions := make(map[string]any), make([]definition, len(metrics)), []string{}
	for i, m := range metrics {
		line[m.name], list[i] = m.value, definition{m.name, m.unit}
	}
	if function != "" {
		line["FunctionName"] = function
		dimensions = append(dimensions, "FunctionName")
	}
	line["_aws"] = map[string]any{
		"Timestamp": now.UnixMilli(),
		"CloudWatchMetrics": []any{map[string]any{"Namespace": Namespace,
			"Dimensions": [][]string{dimensions}, "Metrics": list}},
	}
	text, err := json.Marshal(line)
	if err != nil {
		return // not reached: numbers and strings can be encoded
	}
	_, _ = w.Write(append(text, '\n'))
}
