package redrive_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// answer is what Lambda says to an Invoke.
type answer struct {
	status  int // 0 is 200
	payload string
	failed  string // the header that says so
}

// newFunction is a function behind an endpoint that answers, and keeps the last event.
func newFunction(t *testing.T, a answer) (redrive.Destination, *[]byte) {
	t.Helper()
	var event []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/2015-03-31/functions/pay/invocations" {
			t.Errorf("asked for %s %s, %v", r.Method, r.URL, r.Header)
		}
		event, _ = io.ReadAll(r.Body)
		if a.failed != "" {
			w.Header().Set("X-Amz-Function-Error", a.failed)
		}
		if a.status != 0 {
			w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
			w.WriteHeader(a.status)
		}
		_, _ = io.WriteString(w, a.payload)
	}))
	t.Cleanup(server.Close)
	client := lambda.NewFromConfig(awstest.Config(t, server.URL),
		func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	return redrive.Function(client, *aws.String("pay")), &event
}

// ended is how a function on idemsk says what became of its one record.
func ended(outcome string) string {
	return `{"batchItemFailures":[],"idemskOutcomes":[{"partition":"payments-1","offset":7,"outcome":"` +
		outcome + `"}]}`
}

const (
	nothingFailed = `{"batchItemFailures":[]}`
	oneFailed     = `{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-1","offset":7}}]}`
	boom          = `{"errorType":"T","errorMessage":"boom"}`
)

func TestFunctionGetsTheEvent(t *testing.T) {
	t.Parallel()
	dst, event := newFunction(t, answer{payload: strings.Replace(ended("Executed"), `"offset":7,`,
		`"offset":77,`, 1)})
	l := letter(77)
	if where, err := dst.Send(t.Context(), &l); err != nil || where != "the function pay: executed" {
		t.Fatalf("%s, %v", where, err)
	}
	decoded, err := msk.Decode(*event)
	if err != nil {
		t.Fatal(err)
	}
	if !decoded.Outcomes {
		t.Error("the event does not ask for outcomes")
	}
	r := decoded.Partitions[0][0]
	if r.Undecodable != nil || r.Source() != "payments-1@77" || string(r.Value) != string(l.Value) ||
		r.Timestamp.UnixMilli() != l.Timestamp {
		t.Errorf("the record of the event: %+v, %v", r, r.Undecodable)
	}
	if h := r.Headers[len(r.Headers)-1]; h.Key != kafka.RedriveHeader || string(h.Value) != "1700000000123 permanent" ||
		len(r.Headers) != 3 {
		t.Errorf("headers %v", r.Headers)
	}
}

// The messages name the function. What an answer means is tested in package redriven.
func TestWhatAFunctionSays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer answer
		where  string // "" is an error
		says   string
	}{
		"executed": {answer{payload: ended("Executed")}, "the function pay: executed", ""},
		"FAILED still": {answer{payload: ended("ReplayedFailed")}, "",
			"the function pay found the key FAILED still, and did nothing: "},
		"no outcome": {answer{payload: nothingFailed}, "",
			"the function pay reports no failure, but its answer does not name the outcome"},
		"reported": {answer{payload: oneFailed}, "", "the function pay reported the record as not settled: "},
		"another function": {answer{payload: `"hello"`}, "",
			"the function pay returned a response that is not a partial batch response"},
		"an error": {answer{payload: boom, failed: "Unhandled"}, "",
			"the function pay failed (Unhandled): T: boom"},
		"an error, no JSON": {answer{payload: `boom`, failed: "Unhandled"}, "",
			"the function pay failed (Unhandled): boom"},
		"no such function": {answer{status: http.StatusNotFound,
			payload: `{"Message":"Function not found"}`}, "", "--function-name"},
	} {
		dst, _ := newFunction(t, test.answer)
		l := letter(7)
		where, err := dst.Send(t.Context(), &l)
		switch {
		case test.where != "" && (err != nil || where != test.where):
			t.Errorf("%s: %q, %v; want %q", name, where, err, test.where)
		case test.where == "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %q, %v; want an error that says %q", name, where, err, test.says)
		}
	}
}
