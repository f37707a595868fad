package layerproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/layercall/layerproxy"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// The test binary is also the layer, and the function behind it.
const (
	asLayer    = "as the layer"
	asFunction = "as the function"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asLayer:
			layerproxy.Main(os.Args[2:])
		case asFunction:
			runFunction(os.Args[2])
			return
		}
	}
	goleak.VerifyTestMain(m)
}

// fixture is a function behind the layer, with a DynamoDB and an SQS in this process.
type fixture struct {
	testing.TB
	config   runtimeapi.Config
	events   string // the file to which the function appends each event that it gets
	db       *dynamostore.Store
	sqs      *sqs.Client
	queue    string
	function *runtimeapi.Function // nil: not started
}

func newFixture(t testing.TB, mode string, env ...string) *fixture {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, events: filepath.Join(t.TempDir(), "events")}
	f.config = runtimeapi.Config{
		Command: []string{program, asLayer, program, asFunction, mode},
		Env: append(f.cloud(), append(
			[]string{eventsVariable + "=" + f.events, "GOCOVERDIR=" + t.TempDir()}, env...)...),
		Name: "payments", Timeout: time.Minute, InitTimeout: time.Minute,
	}
	t.Cleanup(f.stop)
	return f
}

// cloud starts the DynamoDB and the SQS, and returns the function's variables.
func (f *fixture) cloud() []string {
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	tables, err := dynamofake.New(dynamofake.Config{})
	must(err)
	queues, err := sqsfake.New(sqsfake.Config{})
	must(err)
	must(errors.Join(tables.Start(), queues.Start(),
		tables.CreateTable(dynamofake.Table{Name: "keys", HashKey: dynamostore.AttrKey})))
	f.Cleanup(func() { must(errors.Join(tables.Close(), queues.Close())) })
	access := aws.Config{Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}
	at := func(url string) aws.Config { c := access.Copy(); c.BaseEndpoint = &url; return c }
	f.db, err = dynamostore.New(dynamostore.NewClient(at(tables.URL())),
		dynamostore.Config{Table: "keys", MaxClockSkew: -1})
	must(err)
	f.sqs = sqs.NewFromConfig(awstest.Config(f, queues.URL()))
	queue, err := f.sqs.CreateQueue(f.Context(), &sqs.CreateQueueInput{QueueName: aws.String("letters")})
	must(err)
	f.queue = *queue.QueueUrl
	return []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + tables.URL(), "AWS_ENDPOINT_URL_SQS=" + queues.URL(),
		"AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret", "IDEMSK_TABLE=keys",
		"IDEMSK_DEAD_LETTER_QUEUE_URL=" + f.queue,
		"IDEMSK_KEY=key", "IDEMSK_FINGERPRINT=none", "IDEMSK_MAX_CLOCK_SKEW=0s", "IDEMSK_MAX_ATTEMPTS=2",
		"IDEMSK_RETRY_DELAY=0s",
	}
}

// unwrapped runs the function without the layer.
func (f *fixture) unwrapped() { f.config.Command = f.config.Command[2:] }

func (f *fixture) stop() {
	if f.function != nil {
		f.function.Close(context.Background())
	}
}

// deliver invokes the function with a payload.
func (f *fixture) deliver(payload []byte) (answer string, err error) {
	f.Helper()
	if f.function == nil {
		if f.function, err = runtimeapi.Start(f.Context(), f.config); err != nil {
			f.Fatal(err)
		}
	}
	result, err := f.function.Invoke(f.Context(), payload)
	return string(result.Payload), err
}

func (f *fixture) answers(payload []byte, want string) {
	f.Helper()
	if got, err := f.deliver(payload); err != nil || got != want {
		f.Errorf("answer %s, %v; want %s", got, err, want)
	}
}

// fails delivers a payload and returns the error, which must be of type E.
func fails[E error](f *fixture, payload []byte) E {
	f.Helper()
	answer, err := f.deliver(payload)
	var e E
	if !errors.As(err, &e) {
		f.Fatalf("answer %s, error %T %v; want an error of type %T", answer, err, err, e)
	}
	return e
}

// event returns the event of records of one partition. Each record is KEY or KEY:DO, where DO tells the
// function what to do.
func event(records ...string) []byte {
	messages := make([]mskevent.Message, len(records))
	for i, r := range records {
		key, do, _ := strings.Cut(r, ":")
		messages[i] = mskevent.Message{
			Topic: "payments", Partition: 3, Offset: int64(i), Timestamp: 1_700_000_000_000,
			TimestampType: "CREATE_TIME",
			Key:           []byte(key), Value: []byte(do),
			Headers: []mskevent.Header{{Key: "trace", Value: []byte(key)}},
		}
	}
	return mskevent.MSK("arn:aws:kafka:us-east-1:000000000000:cluster/c/1", "b-1:9092").Messages(messages...)
}

// several allows many records in a call, of any lanes.
var several = []string{"IDEMSK_CALL_RECORDS=100", "IDEMSK_ORDER=none"}

const (
	complete = `{"batchItemFailures":[]}`
	partial  = "IDEMSK_FAILURES=partial"
)

// calls returns the function's calls so far: the records of each call as KEY#ATTEMPT. A record without an
// attempt is KEY#.
func (f *fixture) calls() (calls []string) {
	f.Helper()
	for _, e := range f.received() {
		var records []string
		for _, r := range e.records {
			records = append(records, r.key+"#"+r.headers["idemsk-attempt"])
		}
		calls = append(calls, strings.Join(records, " "))
	}
	return calls
}

func (f *fixture) wantCalls(want ...string) { f.Helper(); f.wantCallsUnordered(len(want), want...) }

// wantCallsUnordered is wantCalls, but the calls after the first n may be in any order.
func (f *fixture) wantCallsUnordered(n int, want ...string) {
	f.Helper()
	got := f.calls()
	slices.Sort(want[n:])
	slices.Sort(got[min(n, len(got)):])
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		f.Errorf("calls %q, want %q", got, want)
	}
}

// received returns the events that the function got.
func (f *fixture) received() (events []received) {
	f.Helper()
	file, err := os.ReadFile(f.events)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		var e received
		if err := json.Unmarshal([]byte(line), &e.delivery); err != nil {
			f.Fatal(err)
		}
		e.records = recordsOf(e.Payload)
		events = append(events, e)
	}
	return events
}

type received struct {
	delivery
	records []record
}

// entry returns the entry of a key.
func (f *fixture) entry(key string) store.Entry {
	f.Helper()
	e, err := f.db.Get(f.Context(), "payments#payments#"+key)
	if err != nil {
		f.Fatal(err)
	}
	return e
}

func (f *fixture) wantStatus(want store.Status, keys ...string) {
	f.Helper()
	for _, key := range keys {
		if got := f.entry(key).Status; got != want {
			f.Errorf("the key %s is %s, want %s", key, got, want)
		}
	}
}

// letters returns the bodies of the dead letters so far, and removes them.
func (f *fixture) letters() (bodies []string) {
	f.Helper()
	out, err := f.sqs.ReceiveMessage(f.Context(),
		&sqs.ReceiveMessageInput{QueueUrl: &f.queue, MaxNumberOfMessages: 10})
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range out.Messages {
		bodies = append(bodies, *m.Body)
		if _, err := f.sqs.DeleteMessage(f.Context(),
			&sqs.DeleteMessageInput{QueueUrl: &f.queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
			f.Fatal(err)
		}
	}
	return bodies
}

// hold claims a key for another process.
func (f *fixture) hold(key string) store.Entry {
	f.Helper()
	res := f.db.Claim(f.Context(), []store.ClaimRequest{{Key: "payments#payments#" + key, Owner: "another",
		Lease: time.Hour, Retention: time.Hour}})[0]
	if res.State != store.Claimed {
		f.Fatalf("state %v: %v", res.State, res.Err)
	}
	return res.Entry
}

// release releases a key of hold without counting its attempt.
func (f *fixture) release(e store.Entry) {
	f.Helper()
	if err := errors.Join(f.db.Settle(f.Context(), []store.Settlement{
		{Op: store.OpRelease, Key: e.Key, Token: e.Token, Owner: e.Owner, Retention: time.Hour, Refund: true},
	})...); err != nil {
		f.Error(err)
	}
}
