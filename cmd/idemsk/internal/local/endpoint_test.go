package local_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// lambdaServer is an Invoke endpoint.
func lambdaServer(t *testing.T, answer func(w http.ResponseWriter, n int)) string {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet && r.URL.Path == "/2015-03-31/functions/payments" {
			_, _ = io.WriteString(w, `{"Configuration":{}}`)
			return
		}
		if r.URL.Path != "/2015-03-31/functions/payments/invocations" {
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		n++
		answer(w, n)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestInvokeEndpoint(t *testing.T) {
	t.Parallel()
	url := lambdaServer(t, func(w http.ResponseWriter, n int) {
		w.Header().Set("X-Amzn-Requestid", "id")
		switch n {
		case 1:
			w.Header().Set("X-Amzn-Errortype", "TooManyRequestsException")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			_, _ = io.WriteString(w, `{"errorType":"Boom","errorMessage":"no"}`)
		default: // {"_aws":{},"Executed":2,"BatchSize":2}
			w.Header().Set("X-Amz-Log-Result", "eyJfYXdzIjp7fSwiRXhlY3V0ZWQiOjIsIkJhdGNoU2l6ZSI6Mn0K")
			_, _ = io.WriteString(w, `{"batchItemFailures":[]}`)
		}
	})
	o, _ := options(t, "")
	o.Function, o.Env, o.Invoke, o.FunctionName = "", nil, url, "payments"
	o.Brokers, o.ESM.MaximumRetryAttempts = newCluster(t, "a", "b").ListenAddrs(), 1
	report := mustRun(t, o)
	if report.Invocations != 2 || report.Failed != 1 || report.Done != 2 || report.Outcomes.Executed != 2 ||
		len(report.GivenUp) != 0 {
		t.Errorf("%+v; want one function error, and the throttle not counted", report)
	}
}

// A wrong function name is reported at the start. Otherwise the run would wait for the first record.
func TestInvokeEndpointWithoutTheFunction(t *testing.T) {
	t.Parallel()
	url := lambdaServer(t, func(http.ResponseWriter, int) { t.Error("nothing is to be invoked") })
	o, _ := options(t, "")
	o.Function, o.Env, o.Invoke, o.UntilDrained = "", nil, url+
		"/2015-03-31/functions/missing/invocations", false
	if _, err := run(t, o); err == nil ||
		!strings.Contains(err.Error(), "there is no function missing at "+url) {
		t.Errorf("%v", err)
	}
}

// A Runtime Interface Emulator supports invocations only.
func TestInvokeAnEmulator(t *testing.T) {
	t.Parallel()
	emulator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path != "/2015-03-31/functions/function/invocations" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"batchItemFailures":[]}`)
	}))
	t.Cleanup(emulator.Close)
	o, _ := options(t, "")
	o.Function, o.Env, o.Invoke, o.Produce = "", nil, emulator.URL+
		"/2015-03-31/functions/function/invocations", 10
	if report, err := run(t, o); err != nil || report.Done != 10 {
		t.Errorf("%+v, %v", report, err)
	}
}
