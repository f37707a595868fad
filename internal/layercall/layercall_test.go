package layercall_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The function is called for the records that must run, one in a call unless IDEMSK_CALL_RECORDS allows more, each with
// the number of its attempt. Its answer, or the error of the call, decides what becomes of them.
func TestCallsOfAnInvocation(t *testing.T) {
	t.Parallel()
	raised := layercall.FunctionError("", []byte(`{"errorType":"ValueError","errorMessage":"no such account"}`))
	unreached := idem.Unavailable(errors.New("it did not get the event"))
	const (
		named = `{"batchItemFailures":[{"itemIdentifier":{"partition":"t-0","offset":1}}]}` // b
		none  = `{"batchItemFailures":[]}`
	)
	last := []callsOf{
		{[]reply{{"b#2", "", unreached}}, named},
		{[]reply{{"b#2", `"ok"`, nil}}, none},
		{nil, none},
	}
	for records, invocations := range map[string][]callsOf{
		"":    append([]callsOf{{[]reply{{"a#1", none, nil}, {"b#1", "", raised}}, named}}, last...),
		"1":   append([]callsOf{{[]reply{{"a#1", `null`, nil}, {"b#1", named, nil}}, named}}, last...),
		"2":   append([]callsOf{{[]reply{{"a#1 b#1", "", raised}, {"a#1", none, nil}, {"b#1", named, nil}}, named}}, last...),
		"100": append([]callsOf{{[]reply{{"a#1 b#1", named, nil}}, named}}, last...),
	} {
		t.Run("records "+records, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testInvocations(t, records, invocations) })
		})
	}
}

// callsOf are the calls of an invocation, and its answer.
type callsOf struct {
	runtime []reply
	want    string
}

func testInvocations(t *testing.T, records string, invocations []callsOf) {
	env := map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "payments", "IDEMSK_STORE": "memory", "IDEMSK_KEY": "key",
		"IDEMSK_FAILURES": "partial", "IDEMSK_RETRY_DELAY": "0s", "IDEMSK_CALL_RECORDS": records,
	}
	vars := app.NewVars(func(name string) (string, bool) { s := env[name]; return s, s != "" })
	fn, err := lambda.New(t.Context(), layercall.Build, vars, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer fn.Close()
	event := mskevent.Cluster("").Messages(message(0, "a"), message(1, "b"))
	for _, invocation := range invocations {
		calls := 0
		ctx, err := layercall.NewContext(t.Context(), event,
			func(_ context.Context, event []byte) ([]byte, error) {
				calls++
				if calls > len(invocation.runtime) {
					return nil, fmt.Errorf("a call with %s", attempts(t, event))
				}
				call := invocation.runtime[calls-1]
				if got := attempts(t, event); got != call.wants {
					t.Errorf("call %d has %s, want %s", calls, got, call.wants)
				}
				return []byte(call.answer), call.err
			})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := fn.Invoke(ctx, event); err != nil || string(answer) != invocation.want ||
			calls != len(invocation.runtime) {
			t.Errorf("answer %s, %v after %d calls; want %s after %d", answer, err, calls,
				invocation.want, len(invocation.runtime))
		}
	}
}

// reply is what the function replies to a call that has these records.
type reply struct {
	wants  string
	answer string
	err    error
}

func message(offset int64, key string) mskevent.Message {
	return mskevent.Message{Topic: "t", Offset: offset, Timestamp: 1_700_000_000_000,
		TimestampType: "CREATE_TIME", Key: []byte(key)}
}

// attempts returns the records of an event as KEY#ATTEMPT.
func attempts(t *testing.T, event []byte) string {
	decoded, err := msk.Decode(event)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range decoded.Partitions[0] {
		if !slices.ContainsFunc(r.Headers,
			func(h kafka.Header) bool { return h.Key == "idemsk-token" && len(h.Value) > 0 }) {
			t.Errorf("%s has no token: %v", r.Source(), r.Headers)
		}
		all = append(all, string(r.Key)+"#"+string(r.Headers[len(r.Headers)-1].Value))
	}
	return strings.Join(all, " ")
}

func TestEventsThatHaveNoCalls(t *testing.T) {
	t.Parallel()
	for event, says := range map[string]string{
		`{"eventSource":"aws:kafka"}`: `it has no "records"`,
		`{"eventSource":"aws:kafka","records":{"t-0":[{"offset":1},{"offset":1}]}}`: "the record t-0@1 twice",
	} {
		if _, err := layercall.NewContext(t.Context(), []byte(event), nil); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error with %q", event, err, says)
		}
	}
}
