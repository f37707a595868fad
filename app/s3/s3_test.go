package s3_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/app/s3"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/test/apptest"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
	"github.com/idemsk/idemsk/kafka"
	s3values "github.com/idemsk/idemsk/kafka/deadletter/s3"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// A value that is too large for a message of the queue is stored under the prefix, and a smaller one is not.
func TestLargeValuesOfAFunction(t *testing.T) {
	queues, queue := awstest.NewQueue(t, "letters")
	objects := new(s3test.Server)
	const bucket = "payments-dead-letters"
	large, small := failedRecords(t, queues, queue, objects.Start(t), bucket)
	if objects.Len() != 1 || len(small.Value) == 0 ||
		!strings.HasPrefix(large.ValueObject, "s3://"+bucket+"/ledger/") {
		t.Errorf("%d objects; the large letter names %q, and the small one has %d bytes", objects.Len(),
			large.ValueObject, len(small.Value))
	}
}

// failedRecords handles a large and a small record, which fail for good, with the SDK's configuration from
// the environment. It returns their letters.
func failedRecords(t *testing.T, queues *sqs.Client, queue, endpoint, bucket string) (large,
	small *kafka.DeadLetter) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ENDPOINT_URL_SQS": *queues.Options().BaseEndpoint,
		"AWS_REGION":        "us-east-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
	} {
		t.Setenv(name, value)
	}
	vars := apptest.Vars(map[string]string{
		"IDEMSK_STORE": "memory", "AWS_LAMBDA_FUNCTION_NAME": "ledger", "IDEMSK_KEY": "offset",
		"IDEMSK_DEAD_LETTER_QUEUE_URL": queue,
		"IDEMSK_DEAD_LETTER_MAX_BYTES": "20480", "IDEMSK_DEAD_LETTER_BUCKET": bucket + "/ledger",
	})
	refuse := func(context.Context, kafka.Record) ([]byte, error) {
		return nil, idem.Permanent(errors.New("no such account"))
	}
	f, err := lambda.New(t.Context(), app.Handler(kafka.HandlerFunc(refuse)), vars, t.Output(), t.Output(),
		s3.DeadLetterValues())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	value := func(size int) string {
		return base64.StdEncoding.EncodeToString(
			bytes.Repeat([]byte("v"), size))
	}
	event := fmt.Sprintf(`{"records":{"payments-0":[{"topic":"payments","partition":0,"offset":0,"value":%q},{"topic":"payments","partition":0,"offset":1,"value":%q}]}}`,
		value(10241), value(10240))
	if _, err := f.Invoke(t.Context(), []byte(event)); err != nil {
		t.Fatal(err)
	}
	var letters [2]kafka.DeadLetter
	for range letters {
		out, err := queues.ReceiveMessage(t.Context(),
			&sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 1})
		if err != nil || len(out.Messages) != 1 {
			t.Fatalf("%v; %d letters", err, len(out.Messages))
		}
		var l kafka.DeadLetter
		if err := json.Unmarshal([]byte(*out.Messages[0].Body), &l); err != nil {
			t.Fatal(err)
		}
		letters[l.Offset] = l
	}
	filled := letters[0]
	if err := s3values.Fill(t.Context(), s3test.Client(t, endpoint), &filled); err != nil ||
		len(filled.Value) != 10241 {
		t.Errorf("%v; the value in the bucket has %d bytes", err, len(filled.Value))
	}
	return &letters[0], &letters[1]
}

func TestInvalidBucketsAreRefused(t *testing.T) {
	for _, value := range []string{"My-Bucket", "b", "/ledger", "s3://payments",
		"payments/" + strings.Repeat("p", s3values.MaxPrefix)} {
		_, err := lambda.New(t.Context(), app.Handler(nil), apptest.Vars(map[string]string{
			"IDEMSK_STORE": "memory", "AWS_LAMBDA_FUNCTION_NAME": "ledger",
			"IDEMSK_DEAD_LETTER_QUEUE_URL": "http://127.0.0.1:1/0/q", "IDEMSK_DEAD_LETTER_BUCKET": value,
		}), t.Output(), t.Output(), s3.DeadLetterValues())
		if want := fmt.Sprintf("IDEMSK_DEAD_LETTER_BUCKET is %q: want the name of a bucket, or NAME/PREFIX",
			value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
