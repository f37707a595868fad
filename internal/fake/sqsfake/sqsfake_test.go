package sqsfake_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// direct is an HTTP client that calls the server without a network, so that all goroutines are in the
// synctest bubble.
type direct struct{ server *sqsfake.Server }

func (d direct) Do(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.server.ServeHTTP(w, r)
	return w.Result(), nil
}

func newServer(t *testing.T) *sqsfake.Server {
	t.Helper()
	server, err := sqsfake.New(sqsfake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func newClient(server *sqsfake.Server) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://sqsfake.invalid"), HTTPClient: direct{server},
		RetryMaxAttempts: 1,
		Credentials:      credentials.NewStaticCredentialsProvider("id", "secret", ""),
	})
}

func newQueue(t *testing.T, client *sqs.Client, attributes map[string]string) *string {
	t.Helper()
	out, err := client.CreateQueue(t.Context(),
		&sqs.CreateQueueInput{QueueName: aws.String("letters"), Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	return out.QueueUrl
}

func send(t *testing.T, client *sqs.Client, queue *string, body string) {
	t.Helper()
	out, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue, MessageBody: &body})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(out.MessageId) == "" || aws.ToString(out.MD5OfMessageBody) == "" {
		t.Errorf("SendMessage answered %+v, want an ID and a checksum", out)
	}
}

func receive(t *testing.T, client *sqs.Client, in sqs.ReceiveMessageInput) []types.Message {
	t.Helper()
	out, err := client.ReceiveMessage(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Messages
}

// codeOf returns the error code by which a caller distinguishes errors.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func TestOverTheNetwork(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	client := sqs.NewFromConfig(awstest.Config(t, server.URL()))
	queue := newQueue(t, client, nil)
	if !strings.HasPrefix(*queue, server.URL()+"/") {
		t.Errorf("the queue's URL is %s, want one below %s", *queue, server.URL())
	}
	named, err := client.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String("letters")})
	if err != nil || *named.QueueUrl != *queue {
		t.Errorf("GetQueueUrl: %v, %v", named, err)
	}
	send(t, client, queue, "straße\n\t\"<&>")
	count := types.MessageSystemAttributeNameApproximateReceiveCount
	got := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{count}})
	if len(got) != 1 || *got[0].Body != "straße\n\t\"<&>" ||
		got[0].Attributes["ApproximateReceiveCount"] != "1" || len(got[0].Attributes) != 1 {
		t.Fatalf("received %+v", got)
	}
	if _, err := client.DeleteMessage(t.Context(),
		&sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: got[0].ReceiptHandle}); err != nil {
		t.Error(err)
	}
	if _, err := client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: queue}); err != nil {
		t.Error(err)
	}
	_, err = client.SendMessage(t.Context(),
		&sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("late")})
	var missing *types.QueueDoesNotExist
	if !errors.As(err, &missing) || codeOf(err) != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("sending to a deleted queue: %v", err)
	}
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := newClient(newServer(t))
		queue := newQueue(t, client, map[string]string{"VisibilityTimeout": "10"})
		send(t, client, queue, "a")
		first := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue})
		if len(first) != 1 {
			t.Fatalf("received %d messages, want 1", len(first))
		}
		begun := time.Now()
		again := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20,
			VisibilityTimeout: 300})
		if waited := time.Since(begun); len(again) != 1 || waited != 10*time.Second {
			t.Fatalf("received %d messages after %v, want the same one when its 10 s are over", len(again),
				waited)
		}
		_, err := client.ChangeMessageVisibility(t.Context(),
			&sqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: first[0].ReceiptHandle})
		if codeOf(err) != "AWS.SimpleQueueService.MessageNotInflight" {
			t.Errorf("an old receipt changed the visibility: %v", err)
		}
		_, err = client.ChangeMessageVisibility(t.Context(),
			&sqs.ChangeMessageVisibilityInput{QueueUrl: queue, ReceiptHandle: again[0].ReceiptHandle})
		if err != nil {
			t.Fatal(err)
		}
		if back := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue}); len(back) != 1 {
			t.Errorf("received %d messages after the visibility was set to 0, want 1", len(back))
		}
		// A standard queue takes any receipt that it gave out.
		if _, err := client.DeleteMessage(t.Context(),
			&sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: first[0].ReceiptHandle}); err != nil {
			t.Error(err)
		}
		if left := receive(t, client, sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20}); len(
			left) != 0 {
			t.Errorf("received %d messages after the deletion", len(left))
		}
	})
}

func TestLongPollEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, server *sqsfake.Server, client *sqs.Client,
		queue *string){
		"by a message": func(t *testing.T, _ *sqsfake.Server, client *sqs.Client, queue *string) {
			t.Helper()
			send(t, client, queue, "a")
		},
		"by the queue's deletion": func(t *testing.T, _ *sqsfake.Server, client *sqs.Client, queue *string) {
			t.Helper()
			if _, err := client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: queue}); err != nil {
				t.Error(err)
			}
		},
		"by Close": func(t *testing.T, server *sqsfake.Server, _ *sqs.Client, _ *string) {
			t.Helper()
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newServer(t)
				client := newClient(server)
				queue := newQueue(t, client, nil)
				begun := time.Now()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = client.ReceiveMessage(context.Background(),
						&sqs.ReceiveMessageInput{QueueUrl: queue, WaitTimeSeconds: 20})
				}()
				synctest.Wait()
				end(t, server, client, queue)
				<-ended
				if waited := time.Since(begun); waited != 0 {
					t.Errorf("the poll went on for %v", waited)
				}
			})
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	client := newClient(server)
	queue, fifo := newQueue(t, client, nil), newFIFO(t, client)
	ctx := t.Context()
	for name, test := range map[string]struct {
		call func() error
		code string
		says string
	}{
		"no such queue": {func() error {
			_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("missing")})
			return err
		}, "AWS.SimpleQueueService.NonExistentQueue", `"missing"`},
		"an operation it does not have": {func() error {
			_, err := client.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: queue})
			return err
		}, "AWS.SimpleQueueService.UnsupportedOperation", "PurgeQueue"},
		"a parameter it does not have": {func() error {
			_, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue,
				ReceiveRequestAttemptId: aws.String("1")})
			return err
		}, "AWS.SimpleQueueService.UnsupportedOperation", "ReceiveRequestAttemptId"},
		"a delay of more than 15 minutes": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"), DelaySeconds: 901})
			return err
		}, "InvalidParameterValue", "DelaySeconds"},
		"a delay of one message in a FIFO queue": {func() error {
			_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: fifo, MessageBody: aws.String("x"),
				DelaySeconds: 5, MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String("1")})
			return err
		}, "InvalidParameterValue", "DelaySeconds"},
		"a FIFO queue that is not said to be one": {func() error {
			_, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("letters.fifo")})
			return err
		}, "InvalidParameterValue", "FifoQueue"},
		"a FIFO queue without the suffix": {func() error {
			_, err := client.CreateQueue(ctx,
				&sqs.CreateQueueInput{QueueName: aws.String("other"),
					Attributes: map[string]string{"FifoQueue": "true"}})
			return err
		}, "InvalidParameterValue", ".fifo"},
		"a deduplication ID in a standard queue": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"),
					MessageDeduplicationId: aws.String("1")})
			return err
		}, "InvalidParameterValue", "MessageDeduplicationId"},
		"eleven attributes": {func() error {
			attributes := make(map[string]types.MessageAttributeValue)
			for _, name := range strings.Split("abcdefghijk", "") {
				attributes[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &name}
			}
			_, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("x"),
				MessageAttributes: attributes})
			return err
		}, "InvalidParameterValue", "[11]"},
		"the queue of another account": {func() error {
			_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("letters"),
				QueueOwnerAWSAccountId: aws.String("123456789012")})
			return err
		}, "AWS.SimpleQueueService.NonExistentQueue", `"letters"`},
		"no message group in a FIFO queue": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: fifo, MessageBody: aws.String("x"),
					MessageDeduplicationId: aws.String("1")})
			return err
		}, "MissingParameter", "MessageGroupId"},
		"no deduplication ID in a FIFO queue": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: fifo, MessageBody: aws.String("x"),
					MessageGroupId: aws.String("g")})
			return err
		}, "InvalidParameterValue", "MessageDeduplicationId"},
		"a deduplication ID that is too long": {func() error {
			return sendGrouped(t, client, fifo, "x", "g", strings.Repeat("1", 129))
		}, "InvalidParameterValue", "MessageDeduplicationId"},
		"a queue's name": {func() error {
			_, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("a b")})
			return err
		}, "InvalidParameterValue", "QueueName"},
		"an attribute": {func() error {
			_, err := client.CreateQueue(ctx,
				&sqs.CreateQueueInput{QueueName: aws.String("q"),
					Attributes: map[string]string{"KmsMasterKeyId": "k"}})
			return err
		}, "AWS.SimpleQueueService.UnsupportedOperation", "KmsMasterKeyId"},
		"an empty body": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("")})
			return err
		}, "MissingParameter", "MessageBody"},
		"a body that is too large": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String(strings.Repeat("x", 1<<20+1))})
			return err
		}, "InvalidParameterValue", "shorter than 1048576 bytes"},
		"a control character": {func() error {
			_, err := client.SendMessage(ctx,
				&sqs.SendMessageInput{QueueUrl: queue, MessageBody: aws.String("a\x1bb")})
			return err
		}, "InvalidMessageContents", "U+001B at byte 1"},
		"too many messages": {func() error {
			_, err := client.ReceiveMessage(ctx,
				&sqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 11})
			return err
		}, "InvalidParameterValue", "MaxNumberOfMessages"},
		"a receipt": {func() error {
			_, err := client.DeleteMessage(ctx,
				&sqs.DeleteMessageInput{QueueUrl: queue, ReceiptHandle: aws.String("made up")})
			return err
		}, "ReceiptHandleIsInvalid", "made up"},
	} {
		err := test.call()
		if codeOf(err) != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want the code %s, and %q named", name, err, test.code, test.says)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "192.0.2.1:80", "localhost"} {
		if _, err := sqsfake.New(sqsfake.Config{Addr: addr}); err == nil ||
			!strings.Contains(err.Error(), addr) {
			t.Errorf("%s: %v, want an error that names it", addr, err)
		}
	}
}
