package sqs_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
)

// message is what SendMessage sends.
type message struct {
	QueueURL               string `json:"QueueUrl"`
	MessageBody            string
	MessageGroupID         string `json:"MessageGroupId"`
	MessageDeduplicationID string `json:"MessageDeduplicationId"`
}

// fakeSQS answers SendMessage in the JSON protocol of SQS, and nothing else.
type fakeSQS struct {
	messages []message
	fault    string // an error code, if not empty
	noID     bool
}

// ServeHTTP implements http.Handler.
func (f *fakeSQS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	var m message
	switch err := json.NewDecoder(r.Body).Decode(&m); {
	case err != nil || r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage":
		f.refuse(w, "InvalidAction")
	case f.fault != "":
		f.refuse(w, f.fault)
	case f.noID:
		fmt.Fprint(w, "{}")
	default:
		f.messages = append(f.messages, m)
		sum := md5.Sum([]byte(m.MessageBody)) // the SDK checks it
		fmt.Fprintf(w, `{"MessageId":"id-%d","MD5OfMessageBody":%q}`, len(f.messages),
			hex.EncodeToString(sum[:]))
	}
}

func (*fakeSQS) refuse(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"the fake refuses"}`, code)
}

// start serves the fake and returns a client of it.
func (f *fakeSQS) start(t *testing.T) *awssqs.Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	client := server.Client()
	t.Cleanup(client.CloseIdleConnections)
	return awssqs.New(awssqs.Options{
		Region: "eu-central-1", BaseEndpoint: &server.URL, HTTPClient: awsclient.New(client, 0),
		RetryMaxAttempts: 1,
		Credentials: aws.NewCredentialsCache(
			credentials.NewStaticCredentialsProvider("test", "test", "")),
	})
}

const (
	queueURL = "https://sqs.eu-central-1.amazonaws.com/123456789012/payments-dlq"
	fifoURL  = queueURL + ".fifo"
)

func newQueue(t *testing.T, client sqs.Client, cfg sqs.Config) *sqs.Queue {
	t.Helper()
	q, err := sqs.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// mute is a client that is never called.
type mute struct{}

// SendMessage implements sqs.Client.
func (mute) SendMessage(context.Context, *awssqs.SendMessageInput,
	...func(*awssqs.Options)) (*awssqs.SendMessageOutput, error) {
	panic("called")
}

// losingReply loses the reply to one SendMessage that took effect.
type losingReply struct {
	next  *http.Transport
	armed atomic.Bool
}

// Do implements the SDK's HTTPClient.
func (l *losingReply) Do(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err != nil || r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" ||
		!l.armed.CompareAndSwap(true, false) {
		return resp, err
	}
	return nil, errors.Join(errors.New("test: the reply was lost"), resp.Body.Close())
}

// drain takes the letters out of a queue.
func drain(t *testing.T, client *awssqs.Client, url string) (letters []kafka.DeadLetter) {
	t.Helper()
	for {
		out, err := client.ReceiveMessage(t.Context(),
			&awssqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return letters
		}
		for _, m := range out.Messages {
			letters = append(letters, parsed(t, message{MessageBody: *m.Body}))
			if _, err := client.DeleteMessage(t.Context(),
				&awssqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
