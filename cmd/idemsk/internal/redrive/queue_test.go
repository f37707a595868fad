package redrive_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/redrive"
)

func sendAll(t *testing.T, client *sqs.Client, url string, bodies ...[]byte) {
	t.Helper()
	for _, body := range bodies {
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(string(body))}); err != nil {
			t.Fatal(err)
		}
	}
}

// left are the bodies of the messages that can be received now.
func left(t *testing.T, client *sqs.Client, url string) (all []string) {
	t.Helper()
	for {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10})
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
	client, url := newQueue(t)
	var letters [][]byte
	for offset := range int64(23) {
		l := letter(offset)
		letters = append(letters, encode(t, &l))
	}
	sendAll(t, client, url, append(letters, []byte("hello"))...)
	dst := &listDestination{refuse: map[int64]bool{7: true}}
	results, _ := runAll(t, redrive.Options{Source: redrive.Queue(client, url, time.Minute), Destination: dst})
	if len(results) != 24 || len(dst.sent) != 22 {
		t.Errorf("%d results, %d sent; want 24 and 22", len(results), len(dst.sent))
	}
	// What stays is visible at once, not when its minute is over.
	if got := left(t, client, url); len(got) != 2 || got[0] != string(letters[7]) || got[1] != "hello" {
		t.Errorf("left in the queue: %q; want the one refused and the one that is no letter", got)
	}
}

func TestQueueDryRun(t *testing.T) {
	t.Parallel()
	client, url := newQueue(t)
	l := letter(1)
	sendAll(t, client, url, encode(t, &l))
	results, _ := runAll(t, redrive.Options{Source: redrive.Queue(client, url, time.Minute), Destination: &listDestination{}, DryRun: true})
	if got := left(t, client, url); len(results) != 1 || len(got) != 1 {
		t.Errorf("%d results, %d messages left; want 1 and 1", len(results), len(got))
	}
}

func TestNoSuchQueue(t *testing.T) {
	t.Parallel()
	client, url := newQueue(t)
	_, err := redrive.Run(t.Context(), redrive.Options{
		Source: redrive.Queue(client, url+"-not", time.Minute), Destination: &listDestination{},
	}, func(redrive.Result) {})
	if err == nil || !strings.Contains(err.Error(), "no such queue") || !strings.Contains(err.Error(), "--queue-url") {
		t.Errorf("%v; want an error that says what to check", err)
	}
}
