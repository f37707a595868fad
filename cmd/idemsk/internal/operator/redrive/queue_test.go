package redrive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

func sendAll(t *testing.T, client *sqs.Client, url string, bodies ...[]byte) {
	t.Helper()
	for _, body := range bodies {
		if _, err := client.SendMessage(t.Context(),
			&sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(string(body))}); err != nil {
			t.Fatal(err)
		}
	}
}

// left are the bodies of the messages that can be received now.
func left(t *testing.T, client *sqs.Client, url string) (all []string) {
	t.Helper()
	for {
		out, err := client.ReceiveMessage(t.Context(),
			&sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return all
		}
		for _, m := range out.Messages {
			all = append(all, *m.Body)
		}
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	client, url := awstest.NewQueue(t, "letters")
	var letters [][]byte
	for offset := range int64(23) {
		l := letter(offset)
		letters = append(letters, encode(t, &l))
	}
	sendAll(t, client, url, append(letters, []byte("hello"))...)
	dst := &listDestination{refuse: map[int64]bool{7: true}}
	results, _ := runAll(t, redrive.Options{Source: redrive.Queue(client, url, time.Minute),
		Destination: dst})
	if len(results) != 24 || len(dst.sent) != 22 {
		t.Errorf("%d results, %d sent; want 24 and 22", len(results), len(dst.sent))
	}
	// What stays is visible at once, not when its minute is over.
	if got := left(t, client, url); len(got) != 2 || got[0] != string(letters[7]) || got[1] != "hello" {
		t.Errorf("left in the queue: %q; want the one refused and the one that is no letter", got)
	}
}

// copies is a queue of messages with one body, each of which gets memory of its own as it is received.
type copies struct {
	body    string
	left    int
	deleted int
}

// ReceiveMessage implements redrive.SQS.
func (q *copies) ReceiveMessage(context.Context, *sqs.ReceiveMessageInput,
	...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out := &sqs.ReceiveMessageOutput{}
	for ; q.left > 0 && len(out.Messages) < 10; q.left-- {
		id := aws.String(fmt.Sprint(q.left))
		out.Messages = append(out.Messages,
			types.Message{MessageId: id, ReceiptHandle: id, Body: aws.String(strings.Clone(q.body))})
	}
	return out, nil
}

// ChangeMessageVisibility implements redrive.SQS.
func (*copies) ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput,
	...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	return &sqs.ChangeMessageVisibilityOutput{}, nil
}

// DeleteMessage implements redrive.SQS.
func (q *copies) DeleteMessage(context.Context, *sqs.DeleteMessageInput,
	...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	q.deleted++
	return &sqs.DeleteMessageOutput{}, nil
}

// The letters that stay in a queue, as in a dry run or with another key, are not kept in memory: 60 of them
// would be 12 MB.
func TestLettersThatStayTakeNoMemory(t *testing.T) {
	const letters, most = 60, 4 << 20
	large := letter(1)
	large.Value = bytes.Repeat([]byte{0xff}, 150_000)
	body := string(encode(t, &large))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for name, o := range map[string]redrive.Options{"a dry run": {DryRun: true},
		"one key": {Key: "payments#last"}} {
		q := &copies{body: body, left: letters}
		before := heap()
		o.Source, o.Destination = &watched{Source: redrive.Queue(q, "letters", time.Minute), atEnd: func() {
			if grown := int64(heap()) - int64(before); grown > most {
				t.Errorf("%s: %d MB are in use at the end of the queue; want less than %d", name, grown>>20,
					most>>20)
			}
		}}, &listDestination{}
		results, passed := runAll(t, o)
		if len(results)+passed.Key != letters || q.deleted != 0 {
			t.Errorf("%s: %d results, %+v, %d deleted", name, len(results), passed, q.deleted)
		}
	}
}

// watched is a source that tells when it has come to its end.
type watched struct {
	redrive.Source
	atEnd func()
}

// Close implements redrive.Source.
func (w *watched) Close(ctx context.Context) error {
	w.atEnd()
	return w.Source.Close(ctx)
}

// A queue gives no more than 120,000 messages that stay: what is behind them is not taken for nothing.
func TestAQueueOfMoreLettersThanCanBeHeld(t *testing.T) {
	source := redrive.Queue(&copies{}, "letters", time.Minute)
	if _, err := source.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("an empty queue: %v", err)
	}
	_, err := redrive.Run(t.Context(), redrive.Options{
		Source:      redrive.Queue(&copies{body: "hello", left: 120_000}, "letters", time.Minute),
		Destination: &listDestination{}, DryRun: true,
	}, func(redrive.Result) {})
	if err == nil || !strings.Contains(err.Error(), "may have more letters") {
		t.Errorf("a queue of 120,000 messages that stay: %v", err)
	}
}
