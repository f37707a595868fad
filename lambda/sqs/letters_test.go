package sqs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
	letters "github.com/idemsk/idemsk/kafka/deadletter/sqs"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// largeMessages are messages up to the largest that SQS accepts, with what is large in them.
func largeMessages() map[string]message {
	binary := func(size int) map[string]any {
		return map[string]any{"dataType": "Binary", "binaryValue": base64.StdEncoding.EncodeToString(
			bytes.Repeat([]byte{0xff}, size))}
	}
	undated := map[string]any{"attributes": map[string]any{"SentTimestamp": "soon"}}
	return map[string]message{
		"text of 190 KiB":       {body: strings.Repeat("x", 190<<10)},
		"text of 256 KiB":       {body: strings.Repeat("é", 128<<10)},
		"JSON of 700 KiB":       {body: strings.Repeat(`{"":""},`, 700<<10/8)},
		"text of 1 MiB":         {body: strings.Repeat("x", 1<<20)},
		"attribute of 300 KiB":  {raw: map[string]any{"messageAttributes": map[string]any{"b": binary(300 << 10)}}},
		"attribute of 900 KiB":  {raw: map[string]any{"messageAttributes": map[string]any{"b": binary(900 << 10)}}},
		"undecodable, 190 KiB":  {body: strings.Repeat("x", 190<<10), raw: undated},
		"undecodable, 1 MiB":    {body: strings.Repeat("x", 1<<20), raw: undated},
		"undecodable, no bytes": {raw: map[string]any{"messageAttributes": map[string]any{"b": map[string]any{"binaryValue": "?"}}}},
	}
}

// A message is deleted from its queue when its letter was sent. So the letter has all of it, by itself or in S3,
// or it is not sent: the message stays, and an alarm says what is to be done.
func TestMessagesThatAreLarge(t *testing.T) {
	for sink, tc := range map[string]struct{ limit, bucket string }{
		"1 MiB": {"1048576", ""}, "256 KiB": {"262144", ""}, "256 KiB and S3": {"262144", "dead-letters"},
	} {
		for name, m := range largeMessages() {
			t.Run(sink+"/"+name, func(t *testing.T) {
				m.queue, m.id, m.key = standard, "1", "k"
				dead := newSink(t, tc.limit, tc.bucket)
				f := newFixture(t)
				f.cfg.Records.DeadLetters = dead
				f.handle = func(context.Context, kafka.Record) error { return idem.Permanent(errBoom) }
				ids := f.deliver(m)
				sent := dead.letters(t)
				if len(ids) == 0 {
					wantWhole(t, sent, m)
					return
				}
				equal(t, "letters", len(sent), 0)
				if tc.bucket != "" || sink == "1 MiB" && !strings.Contains(name, "1 MiB") && !strings.Contains(name, "900") {
					t.Errorf("its letter was not sent: %s", f.log.String())
				}
				alarms := f.lines(`"alarm":true`)
				equal(t, "alarms", len(alarms), 1)
				wantContains(t, strings.Join(alarms, ""), "MaximumMessageSize", "IDEMSK_DEAD_LETTER_BUCKET",
					"deleted from its queue")
			})
		}
	}
}

// sink is a queue of dead letters, perhaps with a bucket.
type sink struct {
	kafka.DeadLetters

	queues *awssqs.Client
	url    string
	values s3.Getter
}

func newSink(t *testing.T, limit, bucket string) *sink {
	t.Helper()
	client, _ := awstest.NewQueue(t, "other")
	s := &sink{queues: client, url: awstest.CreateQueue(t, client, "dead", "MaximumMessageSize", limit)}
	queue, err := letters.New(client, letters.Config{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	s.DeadLetters = queue
	if bucket != "" {
		objects := s3test.Client(t, new(s3test.Server).Start(t))
		s.values = objects
		if s.DeadLetters, err = s3.New(queue, objects, s3.Config{Bucket: bucket}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// letters returns the letters in the queue, each as a whole.
func (s *sink) letters(t *testing.T) (all []kafka.DeadLetter) {
	t.Helper()
	out, err := s.queues.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &s.url, MaxNumberOfMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range out.Messages {
		l, err := kafka.ParseDeadLetter([]byte(*out.Messages[i].Body))
		if err == nil && l.ValueObject != "" {
			err = s3.Fill(t.Context(), s.values, &l)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// wantWhole checks that there is one letter, which has all of a message.
func wantWhole(t *testing.T, sent []kafka.DeadLetter, m message) {
	t.Helper()
	if len(sent) != 1 {
		t.Fatalf("the message is deleted, and %d letters were sent", len(sent))
	}
	e, err := sqs.Decode(event(m))
	if err != nil {
		t.Fatal(err)
	}
	r, l := &e.Records[0], &sent[0]
	if r.Undecodable != nil {
		var got, want any
		if err := json.Unmarshal(l.Undecoded, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(r.Undecodable.Raw, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the letter has %.300s", l.Undecoded)
		}
		return
	}
	if !bytes.Equal(l.Value, r.Value) || !bytes.Equal(l.Key, r.Key) || len(l.Headers) != len(r.Headers) {
		t.Fatalf("the letter has a value of %d bytes and %d headers; want %d and %d", len(l.Value), len(l.Headers),
			len(r.Value), len(r.Headers))
	}
	for i, h := range r.Headers {
		if kafka.Header(l.Headers[i]).Key != h.Key || !bytes.Equal(l.Headers[i].Value, h.Value) {
			t.Errorf("the header %s differs", h.Key)
		}
	}
}
