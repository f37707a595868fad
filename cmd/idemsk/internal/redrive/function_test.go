package redrive_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// answer is what Lambda says to an Invoke.
type answer struct {
	status  int // 0 is 200
	payload string
	failed  string // the header that says so
	log     string
}

// newFunction is a function behind an endpoint that answers, and keeps the last event.
func newFunction(t *testing.T, a answer) (redrive.Destination, *[]byte) {
	t.Helper()
	var event []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/2015-03-31/functions/pay/invocations" || r.Header.Get("X-Amz-Log-Type") != "Tail" {
			t.Errorf("asked for %s %s, %v", r.Method, r.URL, r.Header)
		}
		event, _ = io.ReadAll(r.Body)
		if a.failed != "" {
			w.Header().Set("X-Amz-Function-Error", a.failed)
		}
		if a.log != "" {
			w.Header().Set("X-Amz-Log-Result", base64.StdEncoding.EncodeToString([]byte(a.log)))
		}
		if a.status != 0 {
			w.Header().Set("X-Amzn-ErrorType", "ResourceNotFoundException")
			w.WriteHeader(a.status)
		}
		_, _ = io.WriteString(w, a.payload)
	}))
	t.Cleanup(server.Close)
	client := lambda.NewFromConfig(awstest.Config(t, server.URL), func(o *lambda.Options) { o.RetryMaxAttempts = 1 })
	return redrive.Function(client, *aws.String("pay")), &event
}

// metricsLine is how a function on idemsk says what became of its one record.
func metricsLine(outcome string) string {
	return "START\n" + `{"BatchSize":1,"` + outcome + `":1,"_aws":{"Timestamp":1}}` + "\nEND\n"
}

const (
	nothingFailed = `{"batchItemFailures":[]}`
	oneFailed     = `{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-1","offset":7}}]}`
	boom          = `{"errorType":"T","errorMessage":"boom"}`
)

func TestFunctionGetsTheEvent(t *testing.T) {
	t.Parallel()
	dst, event := newFunction(t, answer{payload: nothingFailed})
	l := letter(77)
	if where, err := dst.Send(t.Context(), &l); err != nil || where != "the function pay" {
		t.Fatalf("%s, %v", where, err)
	}
	decoded, err := msk.Decode(*event)
	if err != nil {
		t.Fatal(err)
	}
	r := decoded.Partitions[0].Records[0]
	if r.Undecodable != nil || r.Source() != "payments-1@77" || string(r.Value) != string(l.Value) || r.Timestamp.UnixMilli() != l.Timestamp {
		t.Errorf("the record of the event: %+v, %v", r, r.Undecodable)
	}
	if h := r.Headers[len(r.Headers)-1]; h.Key != kafka.RedriveHeader || string(h.Value) != "1700000000123" || len(r.Headers) != 3 {
		t.Errorf("headers %v", r.Headers)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	place := letter(7)
	place.IdempotencyKey = "payments@payments-1@7"
	larger := strings.Replace(metricsLine("ReplayedFailed"), `Size":1`, `Size":2`, 1)
	for name, test := range map[string]struct {
		answer answer
		letter kafka.DeadLetter
		where  string // "" is an error
		says   string
	}{
		"executed":           {answer{payload: nothingFailed, log: metricsLine("Executed")}, letter(7), "executed", ""},
		"done before":        {answer{payload: nothingFailed, log: metricsLine("Replayed")}, letter(7), "had been done already", ""},
		"failed again":       {answer{payload: nothingFailed, log: metricsLine("DeadLettered")}, letter(7), "failed again", ""},
		"no log":             {answer{payload: nothingFailed}, letter(7), "the function pay", ""},
		"FAILED still":       {answer{payload: nothingFailed, log: metricsLine("ReplayedFailed")}, letter(7), "", "FAILED still"},
		"a place, executed":  {answer{payload: nothingFailed, log: metricsLine("Executed")}, place, "executed", ""},
		"a place, no log":    {answer{payload: nothingFailed}, place, "", "can't be told"},
		"reported":           {answer{payload: oneFailed}, letter(7), "", "not settled"},
		"an error":           {answer{payload: boom, failed: "Unhandled"}, letter(7), "", "failed (Unhandled): T: boom"},
		"an error, no JSON":  {answer{payload: `boom`, failed: "Unhandled"}, letter(7), "", "boom"},
		"another function":   {answer{payload: `"hello"`}, letter(7), "", "not a partial batch response"},
		"null":               {answer{payload: `null`}, letter(7), "", "not a partial batch response"},
		"no such function":   {answer{status: http.StatusNotFound, payload: `{"Message":"Function not found"}`}, letter(7), "", "--function-name"},
		"metrics of another": {answer{payload: nothingFailed, log: larger}, letter(7), "the function pay", ""},
	} {
		dst, _ := newFunction(t, test.answer)
		where, err := dst.Send(t.Context(), &test.letter)
		switch {
		case test.where != "" && (err != nil || !strings.Contains(where, test.where)):
			t.Errorf("%s: %q, %v; want %q", name, where, err, test.where)
		case test.where == "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %q, %v; want an error that says %q", name, where, err, test.says)
		}
	}
}
