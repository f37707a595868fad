package lambda

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// event is one record, under the key a.
const event = `{"eventSource":"aws:kafka","records":{"payments-0":[{"topic":"payments","partition":0,"offset":7,` +
	`"timestamp":1767225600000,"timestampType":"CREATE_TIME","value":"e30=","headers":[{"idempotency-key":[97]}]}]}}`

// function is one under test, and what it prints.
type function struct {
	*Function
	stdout, stderr bytes.Buffer
}

func start(t testing.TB, env map[string]string, handler msk.HandlerFunc) (*function, error) {
	t.Helper()
	var f function
	fn, err := New(t.Context(), func(context.Context, *Base) (msk.Handler, error) { return handler, nil },
		vars(env), &f.stdout, &f.stderr)
	f.Function = fn
	return &f, err
}

func mustStart(t testing.TB, env map[string]string, handler msk.HandlerFunc) *function {
	t.Helper()
	f, err := start(t, env, handler)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func returning(result string, err error) msk.HandlerFunc {
	return func(context.Context, msk.Record) ([]byte, error) { return []byte(result), err }
}

func TestFunctionOnTheMemoryStore(t *testing.T) {
	calls := 0
	env := map[string]string{"IDEMSK_STORE": "memory", "AWS_LAMBDA_FUNCTION_NAME": "ledger"}
	f := mustStart(t, env, func(context.Context, msk.Record) ([]byte, error) {
		calls++
		return nil, nil
	})
	for range 2 {
		out, err := f.Invoke(t.Context(), []byte(event))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "answer", string(out), `{"batchItemFailures":[]}`)
	}
	equal(t, "calls", calls, 1)
	var metrics []map[string]any
	for line := range strings.Lines(f.stdout.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		equal(t, "function in the metrics", m["FunctionName"], any("ledger"))
		metrics = append(metrics, m)
	}
	equal(t, "lines of metrics", len(metrics), 2)
	equal(t, "executed", metrics[0]["Executed"], any(1.0))
	equal(t, "replayed", metrics[1]["Replayed"], any(1.0))
	for line := range strings.Lines(f.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("the log has a line that is not JSON: %q", line)
		}
	}
}

// What a handler logs by its function's logger names its record and the invocation, also without a store.
func TestLinesOfAHandlerNameItsRecord(t *testing.T) {
	for name, want := range map[string]map[string]any{
		"memory": {"source": "payments-0@7", "key": "ledger#payments#a", "attempt": 1.0, "requestId": "r-1"},
		"none":   {"source": "payments-0@7", "key": "ledger#payments#payments-0@7@1767225600000", "attempt": 1.0, "requestId": "r-1"},
	} {
		var stderr bytes.Buffer
		env := map[string]string{"IDEMSK_STORE": name, "AWS_LAMBDA_FUNCTION_NAME": "ledger"}
		f, err := New(t.Context(), func(_ context.Context, base *Base) (msk.Handler, error) {
			return msk.HandlerFunc(func(ctx context.Context, _ msk.Record) ([]byte, error) {
				base.Logger.InfoContext(ctx, "booking", "amount", 1250)
				return nil, nil
			}), nil
		}, vars(env), io.Discard, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "r-1"})
		if _, err := f.Invoke(ctx, []byte(event)); err != nil {
			t.Fatal(err)
		}
		lines := make(map[any]map[string]any)
		for line := range strings.Lines(stderr.String()) {
			var values map[string]any
			if err := json.Unmarshal([]byte(line), &values); err != nil {
				t.Fatal(err)
			}
			lines[values["msg"]] = values
		}
		for attr, value := range want {
			equal(t, name+": "+attr, lines["booking"][attr], value)
		}
		equal(t, name+": there is a token", lines["booking"]["token"] != nil, true)
		equal(t, name+": the request of the batch's line", lines["batch"]["requestId"], any("r-1"))
		f.Close()
	}
}

func TestStartWarnings(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	const queue = "IDEMSK_DEAD_LETTER_QUEUE_URL"
	for _, tc := range []struct {
		env  map[string]string
		says string
	}{
		{map[string]string{"IDEMSK_STORE": "memory", queue: "http://127.0.0.1:9/0/q"},
			"IDEMSK_STORE=memory protects nothing beyond this process"},
		{map[string]string{"IDEMSK_STORE": "none", queue: "http://127.0.0.1:9/0/q"},
			"IDEMSK_STORE=none protects nothing: every delivery runs the"},
		{map[string]string{}, "no dead letters are configured (" + queue +
			" or IDEMSK_DEAD_LETTER_TOPIC): a record that always fails blocks its partition"},
		{map[string]string{queue: "http://127.0.0.1:9/0/q"}, ""},
	} {
		f := mustStart(t, tc.env, returning("", nil))
		if log := f.stderr.String(); !strings.Contains(log, tc.says) ||
			strings.Count(log, "\n") != min(1, len(tc.says)) {
			t.Errorf("%v: the log is %q; want %q", tc.env, log, tc.says)
		}
	}
}

// With IDEMSK_STORE=none every delivery is handled, also of records without a key.
func TestFunctionWithoutAStore(t *testing.T) {
	var handled int
	f := mustStart(t, map[string]string{"IDEMSK_STORE": "none"},
		func(context.Context, msk.Record) ([]byte, error) { handled++; return nil, nil })
	for range 2 {
		if _, err := f.Invoke(t.Context(), []byte(strings.Replace(event, "idempotency-key", "other", 1))); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "handled", handled, 2)
	f.Close()
}

func TestOverrunEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		f := mustStart(t, map[string]string{"IDEMSK_STORE": "memory"},
			func(context.Context, msk.Record) ([]byte, error) {
				<-gate
				return nil, nil
			})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := f.Invoke(ctx, []byte(event))
		var response messages.InvokeResponse_Error
		if !errors.As(err, &response) {
			t.Fatalf("error %v; want what makes the runtime end the process", err)
		}
		if _, direct := err.(messages.InvokeResponse_Error); !direct { //nolint:errorlint // so the runtime looks at it
			t.Errorf("the error is a %T around it", err)
		}
		equal(t, "the process is to exit", response.ShouldExit, true)
		equal(t, "type", response.Type, "Overrun")
		if !strings.Contains(response.Message, "payments-0@7") {
			t.Errorf("%q does not name the record", response.Message)
		}
		close(gate)
		synctest.Wait()
	})
}

func TestOtherErrorsDoNotEndTheProcess(t *testing.T) {
	f := mustStart(t, map[string]string{"IDEMSK_STORE": "memory"}, returning("", errors.New("boom")))
	_, err := f.Invoke(t.Context(), []byte(event))
	var batch *eventsource.BatchError
	if !errors.As(err, &batch) {
		t.Errorf("error %v; want a BatchError", err)
	}
	_, err = f.Invoke(t.Context(), []byte("{}"))
	if !errors.Is(err, msk.ErrNotKafka) {
		t.Errorf("error %v; want ErrNotKafka", err)
	}
}

func TestFailuresAreRead(t *testing.T) {
	for value, want := range map[string]eventsource.Failures{"": eventsource.FailBatch, "batch": eventsource.FailBatch,
		"partial": eventsource.FailPartial} {
		v := vars(map[string]string{"IDEMSK_FAILURES": value})
		equal(t, value, ReadConfig(v).Failures, want)
		equal(t, value, v.Err(), nil)
	}
	v := vars(map[string]string{"IDEMSK_FAILURES": "Partial"})
	ReadConfig(v)
	equal(t, "error", v.Err().Error(), `IDEMSK_FAILURES is "Partial": want one of batch, partial`)
}

func TestErrorsOfTheHandlersVariablesAreReported(t *testing.T) {
	build := func(_ context.Context, base *Base) (msk.Handler, error) {
		base.Vars.Table("LEDGER", "")
		base.Vars.OneOf("MODE", "slow", "fast")
		return nil, base.Vars.Err() // as a builder may
	}
	_, err := New(t.Context(), build, vars(map[string]string{"IDEMSK_LEASE": "long", "MODE": "medium"}), nil,
		nil)
	if err == nil {
		t.Fatal("it starts")
	}
	lines := strings.Split(err.Error(), "\n")
	equal(t, "errors", len(lines), 3)
	for i, name := range []string{"IDEMSK_LEASE", "LEDGER", "MODE"} {
		equal(t, "line about "+name, strings.HasPrefix(lines[i], name+" is "), true)
	}
}

func TestBuildErrorIsReported(t *testing.T) {
	boom := errors.New("boom")
	_, err := New(t.Context(), func(context.Context, *Base) (msk.Handler, error) { return nil, boom },
		vars(nil), nil, nil)
	if !errors.Is(err, boom) {
		t.Errorf("error %v; want the builder's", err)
	}
	if _, err := start(t, map[string]string{"IDEMSK_STORE": "memory"}, nil); !errors.Is(err,
		idem.ErrInvalidConfig) {
		t.Errorf("without a handler: error %v", err)
	}
}

// The production setup except for the network: the SDK's configuration, DynamoDB, SQS.
func TestFunctionOnDynamoDBAndSQS(t *testing.T) {
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	queue := testkit.Serve(t, sqsfake.New, sqsfake.Config{})
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": db.URL(), "AWS_ENDPOINT_URL_SQS": queue.URL(),
		"AWS_REGION":        "eu-central-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "",
		"AWS_PROFILE": "", "AWS_CONFIG_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
	awsCfg := must(config.LoadDefaultConfig(t.Context()))
	client := dynamodb.NewFromConfig(awsCfg)
	if err := dynamostore.CreateTable(t.Context(), client, "payments-keys"); err != nil {
		t.Fatal(err)
	}
	url := must(sqs.NewFromConfig(awsCfg).CreateQueue(t.Context(),
		&sqs.CreateQueueInput{QueueName: ptr("dlq")})).QueueUrl

	f := mustStart(t, map[string]string{
		"IDEMSK_TABLE": "payments-keys", "IDEMSK_DEAD_LETTER_QUEUE_URL": *url, "IDEMSK_MAX_CLOCK_SKEW": "0s",
		"AWS_LAMBDA_FUNCTION_NAME": "ledger",
	}, returning("", idem.Permanent(errors.New("boom"))))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, err := f.Invoke(ctx, []byte(event)); err != nil {
		t.Fatalf("%s: %v: %s", out, err, f.stderr.String())
	}
	st := must(dynamostore.New(client, dynamostore.Config{Table: "payments-keys"}))
	entry := must(st.Get(ctx, "ledger#payments#a"))
	equal(t, "status", entry.Status, store.StatusFailed)
	got := must(sqs.NewFromConfig(awsCfg,
		func(o *sqs.Options) { o.HTTPClient = awsclient.New(nil, 0) }).ReceiveMessage(
		ctx, &sqs.ReceiveMessageInput{QueueUrl: url}))
	equal(t, "messages", len(got.Messages), 1)
	letter := must(kafka.ParseDeadLetter([]byte(*got.Messages[0].Body)))
	equal(t, "source", letter.Source(), "payments-0@7")
	equal(t, "token", letter.Token, entry.Token)
	equal(t, "function", letter.Function, "ledger")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ptr[T any](v T) *T { return &v }
