package eventsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

// emf is a document of the embedded metric format, with the bounds of AWS's JSON schema of it.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
type emf struct {
	AWS struct {
		Timestamp         int64
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name, Unit string }
		}
	} `json:"_aws"`
}

// units are those that the specification allows, as far as there is a use for them here.
var units = []string{"Seconds", "Milliseconds", "Microseconds", "Bytes", "Count", "Percent", "None"}

// parseEMF checks a line against the schema and returns its values.
func parseEMF(t testing.TB, line []byte) (emf, map[string]any) {
	t.Helper()
	var doc emf
	dec := json.NewDecoder(bytes.NewReader(line))
	values := map[string]any{}
	if err := dec.Decode(&values); err != nil {
		t.Fatal(err)
	}
	directive, err := json.Marshal(values["_aws"])
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(directive))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&doc.AWS); err != nil {
		t.Fatal(err)
	}
	delete(values, "_aws")
	equal(t, "a timestamp is there", doc.AWS.Timestamp > 0, true)
	equal(t, "directives", len(doc.AWS.CloudWatchMetrics), 1)
	d := doc.AWS.CloudWatchMetrics[0]
	equal(t, "namespace", d.Namespace, "idemsk")
	equal(t, "dimension sets", len(d.Dimensions), 1)
	for _, name := range d.Dimensions[0] {
		value, ok := values[name].(string)
		equal(t, "the dimension "+name+" has a value", ok && value != "" && len(value) <= 1024, true)
		delete(values, name)
	}
	equal(t, "the number of metrics is allowed", len(d.Metrics) >= 1 && len(d.Metrics) <= 100, true)
	for _, m := range d.Metrics {
		equal(t, "the unit of "+m.Name+" is allowed", slices.Contains(units, m.Unit), true)
		switch v := values[m.Name].(type) {
		case float64:
		case []any:
			equal(t, "the number of values of "+m.Name+" is allowed", len(v) >= 1 && len(v) <= 100, true)
		default:
			t.Errorf("the metric %s has the value %v", m.Name, v)
		}
	}
	equal(t, "values without a metric", len(values), len(d.Metrics))
	return doc, values
}

// Each count of a report is a metric: that of its own name, except Records, which is BatchSize.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r kafka.Report
		want := map[string]any{"RecordAge": 1000.0, "InProgressAge": 2000.0, "StoreLatency": []any{3.0}}
		r.RecordAge, r.InProgressAge, r.StoreLatency = time.Second, 2*time.Second, []time.Duration{3 * time.Millisecond}
		fields := reflect.ValueOf(&r).Elem()
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			if fields.Field(i).Kind() != reflect.Int || name == "Partitions" {
				continue
			}
			if fields.Field(i).SetInt(int64(i + 1)); name == "Records" {
				name = "BatchSize"
			}
			want[name] = float64(i + 1)
		}
		var out bytes.Buffer
		eventsource.EMF(&out, "payments-ledger")(t.Context(), r)
		equal(t, "lines", bytes.Count(out.Bytes(), []byte("\n")), 1)
		doc, values := parseEMF(t, out.Bytes())
		equal(t, "timestamp", doc.AWS.Timestamp, time.Now().UnixMilli())
		equal(t, "dimensions", fmt.Sprint(doc.AWS.CloudWatchMetrics[0].Dimensions[0]), "[FunctionName]")
		if !reflect.DeepEqual(values, want) {
			t.Errorf("metrics %v; want %v", values, want)
		}
	})
}

func TestMetricsOfAFunctionWithoutAName(t *testing.T) {
	var out bytes.Buffer
	eventsource.EMF(&out, "")(context.Background(), kafka.Report{Records: 1, Executed: 1})
	doc, _ := parseEMF(t, out.Bytes())
	equal(t, "dimensions", len(doc.AWS.CloudWatchMetrics[0].Dimensions[0]), 0)
}

// However many claims a batch makes, the format takes a hundred values: they keep the percentiles.
func TestLatenciesAreReducedToAHundredValues(t *testing.T) {
	for _, n := range []int{1, 2, 99, 100, 101, 150, 1000, 20_001} {
		latencies := make([]time.Duration, n)
		for i := range latencies {
			latencies[n-1-i] = time.Duration(i+1) * time.Millisecond
		}
		var out bytes.Buffer
		eventsource.EMF(&out, "f")(context.Background(),
			kafka.Report{StoreLatency: latencies, RecordAge: 1500 * time.Microsecond})
		_, values := parseEMF(t, out.Bytes())
		got := values["StoreLatency"].([]any)
		equal(t, "values", len(got), min(n, 100))
		equal(t, "the smallest", got[0], any(1.0))
		equal(t, "the largest", got[len(got)-1], any(float64(n)))
		median := got[len(got)/2].(float64)
		equal(t, "the median is right", median >= 0.48*float64(n) && median <= 0.52*float64(n)+1, true)
		equal(t, "the age", values["RecordAge"], any(1.5))
	}
}

// Lines of concurrent batches don't mix.
func TestMetricsAreWrittenInWholeLines(t *testing.T) {
	var out strings.Builder
	report := eventsource.EMF(&out, "f")
	done := make(chan struct{})
	for range 8 {
		go func() {
			report(context.Background(), kafka.Report{Records: 7})
			done <- struct{}{}
		}()
	}
	for range 8 {
		<-done
	}
	for line := range strings.Lines(out.String()) {
		parseEMF(t, []byte(line))
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}
