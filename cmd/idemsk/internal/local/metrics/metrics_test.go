package metrics_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/metrics"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

func TestParseReadsTheMetricsOfAFunction(t *testing.T) {
	t.Parallel()
	r := kafka.Report{
		Executed: 1, Replayed: 2, ReplayedFailed: 3, Duplicates: 4, DeadLettered: 5, FailedOpen: 6,
		Retried:  8,
		InFlight: 9, NotStarted: 10, CompletionFailed: 11, StoreDown: 12, Overruns: 13,
		Stolen: 14, Fenced: 15, Reported: 16, Records: 17, Blocked: 18,
		HandlerDown: 20, StoreLatency: []time.Duration{time.Second},
	}
	var line bytes.Buffer
	eventsource.EMF(&line, "payments")(t.Context(), r)
	got, ok := metrics.Parse(line.Bytes())
	want := metrics.Outcomes{
		Executed: 1, Replayed: 2, ReplayedFailed: 3, Duplicates: 4, DeadLettered: 5, FailedOpen: 6,
		Retried:  8,
		InFlight: 9, NotStarted: 10, CompletionFailed: 11, StoreDown: 12, Overruns: 13,
		Stolen: 14, Fenced: 15, Reported: 16, BatchSize: 17, Blocked: 18,
		HandlerDown: 20,
	}
	if !ok || got != want {
		t.Errorf("parsed %+v, %v\nwant %+v\nfrom %s", got, ok, want, line.String())
	}
	if least, most := got.Sum(); least != 84 || most != 99 {
		t.Errorf("Sum: %d to %d, want 84 to 99", least, most)
	}
	sum := got
	sum.Add(&want)
	if sum.Executed != 2 || sum.BatchSize != 34 || sum.Overruns != 26 || sum.HandlerDown != 40 {
		t.Errorf("added: %+v", sum)
	}
}

func TestParseIgnoresOtherLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "text", `{"Executed":1}`, `{"_aws":null}`, `"_aws"`,
		`{"_aws":{},"Executed":"many"}`} {
		if _, ok := metrics.Parse([]byte(line)); ok {
			t.Errorf("%q was taken for metrics", line)
		}
	}
}

func TestParseText(t *testing.T) {
	t.Parallel()
	got, err := metrics.ParseText(strings.NewReader(
		"# HELP idemsk_executed_total Records.\nidemsk_executed_total 1.5e+06\nidemsk_replayed_failed_total 2\n" +
			"idemsk_lag{topic=\"payments\"} 7\ngo_threads_total 9\nidemsk_records_total 8\n"))
	if want := (metrics.Outcomes{Executed: 1_500_000, ReplayedFailed: 2}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := metrics.ParseText(strings.NewReader("idemsk_executed_total many\n")); err == nil ||
		!strings.Contains(err.Error(), "executed") {
		t.Errorf("%v; want an error that names the counter", err)
	}
}
