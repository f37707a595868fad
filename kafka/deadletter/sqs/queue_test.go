package sqs_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
)

func letter() kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "payments", Partition: 3, Offset: 17, Key: []byte("k"), Value: []byte(`{"amount":1250}`),
		Headers:        []kafka.DeadHeader{{Key: "idempotency-key", Value: []byte("a")}},
		IdempotencyKey: "payments#a", Token: 1767225600001, Attempts: 5,
		Error: store.Failure{Code: store.CodeExhausted, Message: "boom",
			At: time.UnixMilli(1767225600002).UTC()},
	}
}

func parsed(t *testing.T, m message) kafka.DeadLetter {
	t.Helper()
	l, err := kafka.ParseDeadLetter([]byte(m.MessageBody))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSendSendsTheLetterAsTheMessageBody(t *testing.T) {
	var fake fakeSQS
	q := newQueue(t, fake.start(t), sqs.Config{URL: queueURL})
	if err := q.Send(t.Context(), letter()); err != nil {
		t.Fatal(err)
	}
	if len(fake.messages) != 1 {
		t.Fatalf("%d messages were sent", len(fake.messages))
	}
	m := fake.messages[0]
	if got := parsed(t, m); !reflect.DeepEqual(got, letter()) {
		t.Errorf("the parsed letter is %+v", got)
	}
	if m.QueueURL != queueURL || m.MessageGroupID != "" || m.MessageDeduplicationID != "" {
		t.Errorf("message %+v; want no attributes of FIFO queues", m)
	}
}

// letterOf is the letter with something changed.
func letterOf(change func(l *kafka.DeadLetter)) kafka.DeadLetter {
	l := letter()
	change(&l)
	return l
}

// A FIFO queue keeps the letter of each failure: of each function and each cluster, with a token or without.
func TestFIFOQueueKeepsTheLettersOfAllFailures(t *testing.T) {
	client, url := awstest.NewQueue(t, "letters.fifo")
	q := newQueue(t, client, sqs.Config{URL: url})
	tokenless := letterOf(func(l *kafka.DeadLetter) { l.Token = 0 })
	letters := []kafka.DeadLetter{
		letter(), tokenless,
		letterOf(func(l *kafka.DeadLetter) { l.Token++ }),
		letterOf(func(l *kafka.DeadLetter) { l.Offset++ }),
		letterOf(func(l *kafka.DeadLetter) { l.Function = "audit" }),
		letterOf(func(l *kafka.DeadLetter) { l.Cluster = "arn:aws:kafka:eu-central-1:123456789012:cluster/other/1" }),
		// failed again
		letterOf(func(l *kafka.DeadLetter) { l.Token, l.Error.At = 0, l.Error.At.Add(time.Nanosecond) }),
		letterOf(func(l *kafka.DeadLetter) {
			l.Topic, l.Partition = strings.Repeat("t", 249),
				math.MaxInt32
		}),
	}
	for _, l := range append(letters, letter(), tokenless) { // the last two are copies
		if err := q.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]bool{}
	for _, l := range drain(t, client, url) {
		got[l.ID()] = true
	}
	if len(got) != len(letters) {
		t.Errorf("%d letters are in the queue; want %d", len(got), len(letters))
	}
	for i := range letters {
		if !got[letters[i].ID()] {
			t.Errorf("letter %d was lost", i)
		}
	}
}

// The client sends a letter again if the reply was lost, and the queue recognises it.
func TestFIFOQueueDropsALetterSentAgainAfterALostReply(t *testing.T) {
	for name, token := range map[string]int64{"with a token": 17, "without": 0} {
		t.Run(name, func(t *testing.T) {
			lossy := &losingReply{next: http.DefaultTransport.(*http.Transport).Clone()}
			t.Cleanup(lossy.next.CloseIdleConnections)
			client, url := awstest.NewQueue(t, "letters.fifo")
			client = awssqs.New(client.Options(), func(o *awssqs.Options) { o.HTTPClient = lossy })
			lossy.armed.Store(true)
			if err := newQueue(t, client, sqs.Config{URL: url}).Send(t.Context(),
				letterOf(func(l *kafka.DeadLetter) { l.Token = token })); err != nil {
				t.Fatal(err)
			}
			if lossy.armed.Load() {
				t.Error("no reply was lost")
			}
			if n := len(drain(t, client, url)); n != 1 {
				t.Errorf("%d letters are in the queue; want 1", n)
			}
		})
	}
}

// Letters of different functions are in different groups, letters of one partition in the same group.
func TestFIFOQueueGroupsByPartitionAndFunction(t *testing.T) {
	var fake fakeSQS
	q := newQueue(t, fake.start(t), sqs.Config{URL: fifoURL})
	for _, l := range []kafka.DeadLetter{
		letter(), letterOf(func(l *kafka.DeadLetter) { l.Offset++ }),
		letterOf(func(l *kafka.DeadLetter) { l.Partition++ }),
		letterOf(func(l *kafka.DeadLetter) { l.Function = "audit" }),
		letterOf(func(l *kafka.DeadLetter) { l.Cluster = "other" }),
		letterOf(func(l *kafka.DeadLetter) { l.Topic = strings.Repeat("t", 249) }),
	} {
		if err := q.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	groups := map[string]int{}
	for _, m := range fake.messages {
		groups[m.MessageGroupID]++
		if len(m.MessageGroupID) > 128 || len(m.MessageDeduplicationID) > 128 {
			t.Errorf("group %q or ID %q is longer than SQS allows", m.MessageGroupID,
				m.MessageDeduplicationID)
		}
	}
	if first := fake.messages[0].MessageGroupID; groups[first] != 2 || len(groups) != 5 ||
		!strings.HasPrefix(first, "payments-3-") {
		t.Errorf("groups %v; want one for the first two, others for the rest", groups)
	}
}

func TestSendOmitsALargeValue(t *testing.T) {
	var fake fakeSQS
	client := fake.start(t)
	for name, tc := range map[string]struct {
		max, value int
		omitted    bool
	}{
		"fits":                 {0, 780_000, false},
		"does not fit":         {0, 790_000, true},
		"fits a smaller limit": {256 << 10, 190_000, false},
		"exceeds it":           {256 << 10, 200_000, true},
	} {
		t.Run(name, func(t *testing.T) {
			fake.messages = nil
			l := letter()
			l.Value = bytes.Repeat([]byte{0xff}, tc.value)
			if err := newQueue(t, client, sqs.Config{URL: queueURL, MaxBytes: tc.max}).Send(t.Context(),
				l); err != nil {
				t.Fatal(err)
			}
			m := fake.messages[0]
			if limit := cmp.Or(tc.max, sqs.DefaultMaxBytes); len(m.MessageBody) > limit {
				t.Errorf("%d bytes were sent; the limit is %d", len(m.MessageBody), limit)
			}
			if got := parsed(t, m); (got.ValueOmitted == tc.value) != tc.omitted ||
				(got.Value == nil) != tc.omitted {
				t.Errorf("ValueOmitted is %d, and %d bytes were sent", got.ValueOmitted, len(got.Value))
			}
		})
	}
}

// A queue may accept less than the letter's limit. Then what is still in Kafka is left out, and a letter that must
// be whole is refused, with what is to be done.
func TestQueueWithASmallerMaximum(t *testing.T) {
	client, _ := awstest.NewQueue(t, "other")
	for name, change := range map[string]func(l *kafka.DeadLetter){
		"value":     func(l *kafka.DeadLetter) { l.Value = bytes.Repeat([]byte{0xff}, 300_000) },
		"headers":   func(l *kafka.DeadLetter) { l.Headers[0].Value = make([]byte, 300_000) },
		"undecoded": func(l *kafka.DeadLetter) { l.Value, l.Undecoded = nil, make([]byte, 300_000) },
		"all": func(l *kafka.DeadLetter) {
			l.Value, l.Headers[0].Value, l.Key = make([]byte, 200_000), make([]byte, 200_000), make([]byte, 200_000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := awstest.CreateQueue(t, client, "letters-"+name, "MaximumMessageSize", "262144")
			q := newQueue(t, client, sqs.Config{URL: url})
			if err := q.Send(t.Context(), letterOf(change)); err != nil {
				t.Fatal(err)
			}
			if got := drain(t, client, url); len(got) != 1 || got[0].ValueOmitted+len(got[0].Omitted) == 0 {
				t.Errorf("%+v", got)
			}
			err := q.Send(t.Context(), letterOf(func(l *kafka.DeadLetter) {
				change(l)
				l.Cluster = "arn:aws:sqs:eu-central-1:123456789012:payments"
			}))
			if !errors.Is(err, kafka.ErrDeadLetterTooLarge) {
				t.Errorf("the letter of a message: %v", err)
			}
			for _, want := range []string{"payments-3@17", url, "MaximumMessageSize", "IDEMSK_DEAD_LETTER_BUCKET"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v; want %s", err, want)
				}
			}
			if got := drain(t, client, url); len(got) != 0 {
				t.Errorf("sent %+v", got)
			}
		})
	}
}

// The largest letter, with the longest key and reason, all of characters that JSON escapes, fits the smallest
// message. No producer can write a record whose dead letter can't be sent.
func TestLargestLetterFitsTheSmallestMessage(t *testing.T) {
	var fake fakeSQS
	q := newQueue(t, fake.start(t), sqs.Config{URL: queueURL, MaxBytes: sqs.SmallestMaxBytes})
	l := letter()
	l.Topic, l.TimestampType, l.Function = strings.Repeat("t", 249), strings.Repeat("T",
		64), strings.Repeat("f", 170)
	// https://docs.aws.amazon.com/lambda/latest/api/API_SelfManagedEventSource.html
	l.Cluster = strings.Repeat(strings.Repeat("b", 300)+",", 10)
	l.IdempotencyKey, l.Error.Message = strings.Repeat("\x01", store.MaxKeyBytes), strings.Repeat("<",
		store.MaxFailureMessage)
	l.Value, l.Key, l.Undecoded = make([]byte, 1<<20), make([]byte, 1<<20), make([]byte, 1<<20)
	l.Headers = []kafka.DeadHeader{{Key: "h", Value: make([]byte, 1<<20)}}
	if err := q.Send(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got := parsed(t, fake.messages[0]); got.IdempotencyKey != l.IdempotencyKey ||
		got.ValueOmitted != 1<<20 {
		t.Errorf("the parsed letter is %+v", got)
	}
}

func TestErrorsNameTheRecordAndTheQueue(t *testing.T) {
	gone := &fakeSQS{fault: "QueueDoesNotExist"}
	for name, send := range map[string]func(t *testing.T) error{
		"refused": func(t *testing.T) error {
			err := newQueue(t, gone.start(t), sqs.Config{URL: queueURL}).Send(t.Context(), letter())
			var notFound *types.QueueDoesNotExist
			if !errors.As(err, &notFound) {
				t.Errorf("the error is %v; want it to wrap the error of SQS", err)
			}
			return err
		},
		"not SQS": func(t *testing.T) error {
			return newQueue(t, (&fakeSQS{noID: true}).start(t), sqs.Config{URL: queueURL}).Send(t.Context(),
				letter())
		},
		"too late": func(t *testing.T) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := newQueue(t, (&fakeSQS{}).start(t), sqs.Config{URL: queueURL}).Send(ctx, letter())
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v; want it to wrap context.Canceled", err)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := send(t)
			if err == nil {
				t.Fatal("Send returned nil for a letter that was not accepted")
			}
			for _, want := range []string{"payments-3@17", queueURL} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %s", err, want)
				}
			}
		})
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	silent := awssqs.New(awssqs.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	for want, client := range map[string]sqs.Client{
		"sqs:SendMessage":              (&fakeSQS{fault: "AccessDenied"}).start(t),
		"IDEMSK_DEAD_LETTER_QUEUE_URL": (&fakeSQS{fault: "QueueDoesNotExist"}).start(t),
		"an endpoint for SQS":          silent,
		"the fake refuses":             (&fakeSQS{fault: "InvalidMessageContents"}).start(t),
	} {
		err := newQueue(t, client, sqs.Config{URL: queueURL}).Send(t.Context(), letter())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v; want %q in it", err, want)
		}
	}
}

func TestSendRefusesALetterThatFitsNoMessage(t *testing.T) {
	l := letter()
	l.Function = strings.Repeat("f", 20<<10)
	err := newQueue(t, mute{}, sqs.Config{URL: queueURL, MaxBytes: sqs.SmallestMaxBytes}).Send(t.Context(), l)
	if !errors.Is(err, kafka.ErrDeadLetterTooLarge) || !strings.Contains(err.Error(), "payments-3@17") {
		t.Errorf("error %v", err)
	}
}

func TestNewRefusesInvalidConfigurations(t *testing.T) {
	for name, tc := range map[string]struct {
		client sqs.Client
		cfg    sqs.Config
		want   string
	}{
		"no client": {nil, sqs.Config{URL: queueURL}, "the client is nil"},
		"no URL":    {mute{}, sqs.Config{}, `URL is ""`},
		"an ARN": {mute{}, sqs.Config{URL: "arn:aws:sqs:eu-central-1:123456789012:q"},
			"URL is \"arn:"},
		"a name":         {mute{}, sqs.Config{URL: "payments-dlq"}, "want a queue's URL"},
		"another scheme": {mute{}, sqs.Config{URL: "ftp://host/q"}, "want a queue's URL"},
		"too few bytes": {mute{}, sqs.Config{URL: queueURL, MaxBytes: 20<<10 - 1},
			"MaxBytes is 20479: want 20480 to 1048576"},
		"too many bytes":  {mute{}, sqs.Config{URL: queueURL, MaxBytes: 1<<20 + 1}, "MaxBytes is 1048577"},
		"a negative size": {mute{}, sqs.Config{URL: queueURL, MaxBytes: -1}, "MaxBytes is -1"},
	} {
		_, err := sqs.New(tc.client, tc.cfg)
		if !errors.Is(err, idem.ErrInvalidConfig) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v; want %q in it", name, err, tc.want)
		}
	}
}
