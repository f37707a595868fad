package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/lambda/eventsource"
)

// Each counter of a function's metrics is one of the process, under the same name.
func TestEveryCounterOfAFunctionIsShown(t *testing.T) {
	var line bytes.Buffer
	eventsource.EMF(&line, "ledger")(t.Context(), kafka.Report{})
	var values map[string]any
	if err := json.Unmarshal(line.Bytes(), &values); err != nil {
		t.Fatal(err)
	}
	// gauges and a histogram
	elsewhere := []string{"_aws", "FunctionName", "RecordAge", "InProgressAge", "StoreLatency"}
	// there are no batches; Records counts the tries
	elsewhere = append(elsewhere, "BatchSize", "Reported")
	for name := range values {
		if !slices.Contains(elsewhere, name) &&
			!slices.ContainsFunc(counts(), func(c count) bool { return c.name == name }) {
			t.Errorf("%s is not shown", name)
		}
	}
}

func TestNamesAreInTheSpellingOfPrometheus(t *testing.T) {
	for name, want := range map[string]string{"Executed": "executed", "DeadLettered": "dead_lettered",
		"StoreDown": "store_down"} {
		if got := snake(name); got != want {
			t.Errorf("%s is %s; want %s", name, got, want)
		}
	}
}

// A consumer that does not run yet is live, is not ready, and has metrics.
func TestBeforeRun(t *testing.T) {
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumer.New(engine,
		kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) { return nil, nil }),
		consumer.Config{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"payments"}, Group: "ledger"})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(c), NewOutcomes())
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/livez":   {http.StatusOK, "ok"},
		"/readyz":  {http.StatusServiceUnavailable, "not a member of the group"},
		"/metrics": {http.StatusOK, "idemsk_dead_lettered_total 0"}, "/": {http.StatusNotFound, ""},
	} {
		w := get(Handler(c, registry), path)
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.body) {
			t.Errorf("%s: %d, %q; want %d, %q", path, w.Code, w.Body.String(), want.status, want.body)
		}
	}
}

// get returns the answer of a handler.
func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

// The counters and the latencies are those of all tries; the ages are those since the last collection.
func TestOutcomesCountWhatTheObserverIsTold(t *testing.T) {
	o := NewOutcomes()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(o)
	task := &idem.Task{Key: "ledger#payments#a", Source: "payments-0@7"}
	for range 3 {
		e := (&idem.Outcome{Kind: idem.Executed, ClaimTook: 5 * time.Millisecond,
			SettleTook: time.Millisecond}).End(task)
		e.Age = time.Minute
		o.Observe(t.Context(), e)
	}
	o.Observe(t.Context(), idem.Event{Step: observe.Handle, Task: task, Took: time.Second})
	for _, age := range []string{"60", "0"} {
		w := get(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "/metrics")
		for _, want := range []string{
			"idemsk_records_total 3", "idemsk_executed_total 3", "idemsk_retried_total 0",
			"idemsk_store_latency_seconds_count 6",
			"idemsk_record_age_seconds " + age,
		} {
			if !strings.Contains(w.Body.String(), want+"\n") {
				t.Errorf("there is no %q:\n%s", want, w.Body)
			}
		}
	}
}
