package layerproxy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// Events that are not from Kafka or SQS, and the answers to them, pass through unchanged.
func TestOtherEventsPassThrough(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	for _, payload := range []string{`{}`, ``, ` { "a" : 1.0 } `, `no JSON`,
		`{"Records":[{"eventSource":"aws:s3"}]}`, `{"stream":"é"}`} {
		f.answers([]byte(payload), payload)
	}
	e := fails[*runtimeapi.FunctionError](f, []byte(`"stream that fails"`))
	if e.Type != "Function.Broken" || e.Message != "in the middle" {
		t.Errorf("error %s: %s", e.Type, e.Message)
	}
	if starts := f.function.Starts(); starts != 1 {
		t.Errorf("%d starts", starts)
	}
}

// The first event that has records and passes through all the same is logged, and no other.
func TestRecordsThatPassThroughAreLoggedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	var warnings []string
	f.config.Stderr = func(line []byte) {
		if strings.Contains(string(line), "passes through unprotected") {
			warnings = append(warnings, string(line))
		}
	}
	f.answers([]byte(`{"records":{}}`), `{"records":{}}`)
	for range 2 {
		for _, payload := range []string{
			`[{"eventSource":"aws:kafka","topic":"payments","partition":3,"offset":1,"value":"YQ=="}]`,
			`[{"eventSource":"aws:sqs","messageId":"m","receiptHandle":"h","body":"a"}]`,
			`{"records":{"payments-3":[{"topic":"payments","partition":3,"offset":1}]}}`,
			`{"Records":[{"messageId":"m","body":"a"}]}`,
		} {
			if _, err := f.deliver([]byte(payload)); err != nil {
				t.Error(err)
			}
		}
	}
	f.stop()
	if len(warnings) != 1 || !strings.Contains(warnings[0], `"level":"WARN"`) || !strings.Contains(warnings[0], `"requestId":`) {
		t.Errorf("warnings %q, want one", warnings)
	}
}

// A runtime that does not start ends the layer in the same way.
func TestRuntimeThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"reports an init error": "it reported an initialization error: ImportError: no module named ledger",
		"exits in init":         "it ended before it asked for work: exit status 9",
		"hangs in init":         "it did not ask for work within 2s and was killed",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, mode)
			if mode == "hangs in init" { // the others may take long on a busy machine
				f.config.InitTimeout = 2 * time.Second
			}
			f.wantNoStart(want)
		})
	}
}

// An invalid configuration is an initialization error that names the variables. The function is never called.
func TestInvalidConfiguration(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", "IDEMSK_LEASE=1m30", "IDEMSK_ORDER=random")
	f.wantNoStart(`InvalidConfiguration: IDEMSK_ORDER is "random"`)
}

func TestLayerWithoutARuntime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	f.config.Command = f.config.Command[:2]
	if e := f.wantNoStart("it ended before it asked for work: exit status 1"); !strings.Contains(
		strings.Join(e.Output, "\n"), "AWS_LAMBDA_EXEC_WRAPPER") {
		t.Errorf("output %q", e.Output)
	}
	f.config.Command = append(f.config.Command, "/no/such/runtime")
	if e := f.wantNoStart("it ended before it asked for work: exit status 1"); !strings.Contains(
		strings.Join(e.Output, "\n"), "/no/such/runtime") {
		t.Errorf("output %q", e.Output)
	}
}

// wantNoStart starts the function, which must fail with a text in its error.
func (f *fixture) wantNoStart(want string) *runtimeapi.StartError {
	f.Helper()
	function, err := runtimeapi.Start(f.Context(), f.config)
	if err == nil {
		function.Close(f.Context())
		f.Fatal("it started")
	}
	var e *runtimeapi.StartError
	if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
		f.Fatalf("error %v; want %q", err, want)
	}
	return e
}
