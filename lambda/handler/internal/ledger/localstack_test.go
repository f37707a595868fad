//go:build rest

package ledger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// root is the folder of the repository, from that of the test.
const root = "../../../.."

// stack is the function, its tables and its queue in LocalStack.
type stack struct {
	*testing.T
	endpoint string
	db       *dynamodb.Client
	fn       *lambda.Client
	queue    *sqs.Client
	store    *dynamostore.Store

	name, ledger, queueURL string
	env                    map[string]string
}

func deploy(t *testing.T) *stack {
	t.Helper()
	endpoint := awstest.LocalStack(t)
	cfg := awstest.Config(t, endpoint)
	name := awstest.Name("idemsk")
	s := &stack{
		T: t, endpoint: endpoint, name: name, ledger: name + "-ledger",
		db: dynamostore.NewClient(cfg), fn: lambda.NewFromConfig(cfg), queue: sqs.NewFromConfig(cfg),
	}
	s.createTables()
	s.queueURL = awstest.CreateQueue(t, s.queue, name)
	awstest.AtEnd(t, func(ctx context.Context) error {
		_, err := s.queue.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &s.queueURL})
		return err
	})
	s.createFunction()
	return s
}

func (s *stack) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stack) createTables() {
	s.must(dynamostore.CreateTable(s.Context(), s.db, s.name))
	awstest.DeleteTableAtEnd(s, s.db, s.name)
	awstest.CreateTable(s, s.db, s.ledger, attrAccount)
	var err error
	s.store, err = dynamostore.New(s.db, dynamostore.Config{Table: s.name})
	s.must(err)
}

func (s *stack) createFunction() {
	s.env = map[string]string{
		"IDEMSK_TABLE": s.name, "IDEMSK_LEDGER_TABLE": s.ledger, "IDEMSK_DEAD_LETTER_QUEUE_URL": s.queueURL,
		"IDEMSK_FAILURES": "partial", "IDEMSK_SIMULATE": "on", "IDEMSK_LEASE": "2s",
		"IDEMSK_MAX_CLOCK_SKEW": "100ms",
	}
	_, err := s.fn.CreateFunction(s.Context(), &lambda.CreateFunctionInput{
		FunctionName: &s.name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Timeout:     aws.Int32(30),
		Role:        aws.String("arn:aws:iam::000000000000:role/idemsk"),
		Environment: &types.Environment{Variables: s.env},
		Code: &types.FunctionCode{ZipFile: awstest.Package(s,
			filepath.Join(root, "dist", "handler-"+runtime.GOARCH, "bootstrap"))},
	})
	s.must(err)
	awstest.AtEnd(s, func(ctx context.Context) error {
		_, err := s.fn.DeleteFunction(ctx, &lambda.DeleteFunctionInput{FunctionName: &s.name})
		return err
	})
	s.wait()
}

func (s *stack) wait() {
	s.must(lambda.NewFunctionActiveV2Waiter(s.fn).Wait(s.Context(),
		&lambda.GetFunctionInput{FunctionName: &s.name}, time.Minute))
	s.must(lambda.NewFunctionUpdatedV2Waiter(s.fn).Wait(s.Context(),
		&lambda.GetFunctionInput{FunctionName: &s.name}, time.Minute))
}

// setenv changes the function's environment, as a deployment would.
func (s *stack) setenv(name, value string) {
	s.Helper()
	s.env[name] = value
	_, err := s.fn.UpdateFunctionConfiguration(s.Context(), &lambda.UpdateFunctionConfigurationInput{
		FunctionName: &s.name, Environment: &types.Environment{Variables: s.env},
	})
	s.must(err)
	s.wait()
}

// invoke delivers a sample event and returns the answer, or the function's error with the end of its log.
func (s *stack) invoke(event string) (resp msk.Response, functionError string) {
	s.Helper()
	payload, err := os.ReadFile(filepath.Join(root, "events", event+".json"))
	s.must(err)
	out, err := s.fn.Invoke(s.Context(),
		&lambda.InvokeInput{FunctionName: &s.name, Payload: payload, LogType: types.LogTypeTail})
	s.must(err)
	if out.FunctionError != nil {
		log, err := base64.StdEncoding.DecodeString(aws.ToString(out.LogResult))
		s.must(err)
		return resp, string(out.Payload) + "\n" + string(log)
	}
	if err := json.Unmarshal(out.Payload, &resp); err != nil {
		s.Fatalf("%s: the answer %s: %v", event, out.Payload, err)
	}
	return resp, ""
}

// settled delivers a sample event and wants nothing to be delivered again.
func (s *stack) settled(event string) {
	s.Helper()
	if resp, fail := s.invoke(event); fail != "" || len(resp.BatchItemFailures) > 0 {
		s.Errorf("%s: failures %v, error %s", event, resp.BatchItemFailures, fail)
	}
}

// reported delivers a sample event and wants these offsets of its one partition to be delivered again.
func (s *stack) reported(event, partition string, offsets ...int64) {
	s.Helper()
	resp, fail := s.invoke(event)
	var want []msk.BatchItemFailure
	for _, offset := range offsets {
		want = append(want, msk.BatchItemFailure{ItemIdentifier: msk.ItemIdentifier{Partition: partition,
			Offset: offset}})
	}
	if fail != "" || !slices.Equal(resp.BatchItemFailures, want) {
		s.Errorf("%s: failures %v, error %s; want failures %v", event, resp.BatchItemFailures, fail, want)
	}
}

// booked returns the ledger's total, and how often something was booked.
func (s *stack) booked() (total, bookings int64) {
	s.Helper()
	out, err := s.db.Scan(s.Context(), &dynamodb.ScanInput{TableName: &s.ledger,
		ConsistentRead: aws.Bool(true)})
	s.must(err)
	for _, item := range out.Items {
		total += s.number(item[attrBalance])
		bookings += s.number(item[attrBookings])
	}
	return total, bookings
}

func (s *stack) number(v ddbtypes.AttributeValue) int64 {
	s.Helper()
	n, ok := v.(*ddbtypes.AttributeValueMemberN)
	if !ok {
		s.Fatalf("%v is no number", v)
	}
	i, err := strconv.ParseInt(n.Value, 10, 64)
	s.must(err)
	return i
}

// wantBooked delivers events and wants the number of bookings to grow by n.
func (s *stack) wantBooked(n int64, events ...string) {
	s.Helper()
	_, before := s.booked()
	for _, e := range events {
		s.settled(e)
	}
	if _, after := s.booked(); after-before != n {
		s.Errorf("%v: %d bookings; want %d", events, after-before, n)
	}
}

// deadLetters receives what is in the queue, and leaves it there.
func (s *stack) deadLetters() []kafka.DeadLetter {
	s.Helper()
	out, err := s.queue.ReceiveMessage(s.Context(),
		&sqs.ReceiveMessageInput{QueueUrl: &s.queueURL, MaxNumberOfMessages: 10})
	s.must(err)
	var letters []kafka.DeadLetter
	for _, m := range out.Messages {
		l, err := kafka.ParseDeadLetter([]byte(*m.Body))
		s.must(err)
		letters = append(letters, l)
		_, err = s.queue.ChangeMessageVisibility(s.Context(), &sqs.ChangeMessageVisibilityInput{
			QueueUrl: &s.queueURL, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0,
		})
		s.must(err)
	}
	return letters
}

// redrive runs the tool that `make build` has left.
func (s *stack) redrive() string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(root, "bin", "idemsk"), "redrive",
		"--queue-url", s.queueURL, "--function-name", s.name, "--endpoint-url", s.endpoint, "--region",
		"us-east-1", "--yes")
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Errorf("idemsk redrive: %v\n%s", err, out)
	}
	return string(out)
}

// TestInLocalStack deploys the real function and delivers MSK events to it.
func TestInLocalStack(t *testing.T) {
	s := deploy(t)
	s.wantBooked(1, "one-record")
	s.wantBooked(0, "one-record")
	s.wantBooked(100, "hundred-records-three-partitions")
	s.wantBooked(0, "hundred-records-three-partitions")
	s.wantBooked(2, "duplicate-in-batch") // three records, two payments
	s.wantBooked(0, "empty-records")
	s.failsTwice()

	s.wantBooked(2, "poison-record")
	letters := s.deadLetters()
	if len(letters) != 1 {
		t.Fatalf("%d dead letters; want 1", len(letters))
	}
	l := letters[0]
	entry, err := s.store.Get(t.Context(), l.IdempotencyKey)
	if err != nil || entry.Status != store.StatusFailed || entry.Token != l.Token ||
		l.Error.Code != store.CodePermanent {
		t.Fatalf("the record is %+v (%v), its dead letter %+v", entry, err, l)
	}
	s.wantBooked(0, "poison-record") // delivered again: it is in the dead letters already
	if n := len(s.deadLetters()); n != 1 {
		t.Errorf("%d dead letters after a second delivery; want 1", n)
	}

	_, before := s.booked()
	s.setenv("IDEMSK_SIMULATE", "off") // the cause is fixed
	out := s.redrive()
	if n := len(s.deadLetters()); n != 0 {
		t.Errorf("%d dead letters after the redrive; want none. It said:\n%s", n, out)
	}
	if entry, err = s.store.Get(t.Context(), l.IdempotencyKey); err != nil ||
		entry.Status != store.StatusCompleted {
		t.Errorf("after the redrive the record is %s (%v)", entry.Status, err)
	}
	if _, after := s.booked(); after != before+1 {
		t.Errorf("the redriven payment was booked %d times; want once", after-before)
	}
}

// failsTwice delivers a record that fails, and one behind it, which must wait for it, until both are booked.
func (s *stack) failsTwice() {
	s.Helper()
	const event = "fails-twice-then-succeeds"
	_, before := s.booked()
	for range 2 {
		s.reported(event, "payments-0", 7100, 7101)
	}
	if _, after := s.booked(); after != before {
		s.Errorf("%d bookings of what is to be delivered again", after-before)
	}
	s.wantBooked(2, event)
	s.wantBooked(0, event)
}

// TestWrongConfigurationInLocalStack wants a function that can't start to say why.
func TestWrongConfigurationInLocalStack(t *testing.T) {
	s := deploy(t)
	s.setenv("IDEMSK_LEASE", "soon")
	_, fail := s.invoke("one-record")
	if fail == "" {
		t.Fatal("the function ran with IDEMSK_LEASE=soon")
	}
	if !strings.Contains(fail, `IDEMSK_LEASE is "soon"`) {
		t.Errorf("neither the function's error nor its log names the variable: %s", fail)
	}
	if _, bookings := s.booked(); bookings != 0 {
		t.Errorf("%d bookings", bookings)
	}
}
