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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Each counter of a function's metrics is one of the process, under the same name.
func TestEveryCounterOfAFunctionIsShown(t *testing.T) {
	var line bytes.Buffer
	msk.EMF(&line, "ledger")(t.Context(), kafka.Report{})
	var values map[string]any
	if err := json.Unmarshal(line.Bytes(), &values); err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"_aws", "FunctionName", "RecordAge", "InProgressAge", "StoreLatency"} // gauges and a histogram
	elsewhere = append(elsewhere, "BatchSize", "Reported")                                      // there are no batches; Records counts the tries
	for name := range values {
		if !slices.Contains(elsewhere, name) && !slices.ContainsFunc(counts(), func(c count) bool { return c.name == name }) {
			t.Errorf("%s is not shown", name)
		}
	}
}

func TestNamesAreInTheSpellingOfPrometheus(t *testing.T) {
	for name, want := range map[string]string{"Executed": "executed", "DeadLettered": "dead_lettered", "StoreDown": "store_down"} {
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
	c, err := consumer.New(engine, func(context.Context, kafka.Record) ([]byte, error) { return nil, nil },
		consumer.Config{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"payments"}, Group: "ledger"})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(c))
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/livez": {http.StatusOK, "ok"}, "/readyz": {http.StatusServiceUnavailable, "not a member of the group"},
		"/metrics": {http.StatusOK, "idemsk_dead_lettered_total 0"}, "/": {http.StatusNotFound, ""},
	} {
		w := httptest.NewRecorder()
		Handler(c, registry).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.body) {
			t.Errorf("%s: %d, %q; want %d, %q", path, w.Code, w.Body.String(), want.status, want.body)
		}
	}
}
