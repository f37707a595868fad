package redrive_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
	"github.com/idemsk/idemsk/lambda/eventsource"
	lambdasqs "github.com/idemsk/idemsk/lambda/sqs"
)

// messageLetter returns the letter of a message of a queue in the SQS of this process, as lambda/sqs makes it.
func messageLetter(t *testing.T, queue, id string) kafka.DeadLetter {
	t.Helper()
	event := strings.NewReplacer("QUEUE", queue, "ID", id).Replace(`{"Records":[{"messageId":"ID","receiptHandle":"h",
		"body":"{\"paymentId\":\"ID\"}","attributes":{"SentTimestamp":"1767225600000","ApproximateReceiveCount":"3",
		"MessageGroupId":"acc-1"},"messageAttributes":{"idempotency-key":{"stringValue":"ID","dataType":"String"},
		"n":{"stringValue":"7","dataType":"Number.int"},"b":{"binaryValue":"AP8=","dataType":"Binary"},
		"t":{"binaryValue":"dGV4dA==","dataType":"Binary.text"},"idemsk-redrive":{"stringValue":"1","dataType":"Number"}},
		"eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:us-east-1:000000000000:QUEUE"}]}`)
	var letters sentLetters
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(context.Context, kafka.Record) ([]byte, error) { return nil, idem.Permanent(errors.New("no")) }
	consumer, err := lambdasqs.New(engine, kafka.HandlerFunc(refuse), eventsource.Config{Failures: eventsource.FailPartial,
		Records: kafka.Config{Namespace: "ledger", DeadLetters: &letters, Function: "payments",
			Logger: slog.New(slog.DiscardHandler)}})
	if err == nil {
		_, err = consumer.Invoke(t.Context(), []byte(event))
	}
	if err != nil || len(letters) != 1 {
		t.Fatalf("%v, %d letters", err, len(letters))
	}
	return letters[0]
}

type sentLetters []kafka.DeadLetter

func (s *sentLetters) Send(_ context.Context, l kafka.DeadLetter) error {
	*s = append(*s, l)
	return nil
}

// A letter goes back to the kind of source that it came from, wherever it was kept, and whatever else is there: a
// topic with the name of the queue. Without a way there it stays, with a word on what is needed.
func TestLettersGoToWhereTheyCameFrom(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"payments", "payments.fifo"} {
		for _, brokers := range []bool{false, true} {
			client, source := awstest.NewQueue(t, name)
			dead := awstest.CreateQueue(t, client, "letters")
			sink, err := sqs.New(client, sqs.Config{URL: dead})
			if err != nil {
				t.Fatal(err)
			}
			record := letter(1)
			for _, l := range []kafka.DeadLetter{messageLetter(t, name, "m-1"), record} {
				if err := sink.Send(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
			cluster := clitest.NewCluster(t, kfake.SeedTopics(3, "payments", name))
			args := []string{"redrive", "--queue-url", dead, "--yes"}
			if brokers {
				args = append(args, "--brokers", cluster)
			}
			r := clitest.Run(t, args...)
			says, code, left := "it is a record of the topic payments: give --brokers", 1, 1
			if brokers {
				says, code, left = "2 redriven", 0, 0
			}
			if r.Code != code || !strings.Contains(r.Err, says) || len(drain(t, client, dead)) != left {
				t.Errorf("%s, brokers %t: %+v; want %q", name, brokers, r, says)
			}
			want := 0
			if brokers {
				want = 1
			}
			if got := clitest.ReadTopic(t, cluster, "payments", want); len(got) != want {
				t.Errorf("%s: the topic has %q", name, got)
			}
			wantMessage(t, drain(t, client, source), name)
		}
	}
}

// In a FIFO queue, ten letters of a partition that stay hold back the others. The command says so.
func TestLettersBehindTenOfAFIFOQueue(t *testing.T) {
	t.Parallel()
	for letters, says := range map[int64]bool{9: false, 12: true} {
		client, queue := awstest.NewQueue(t, "letters.fifo")
		sink, err := sqs.New(client, sqs.Config{URL: queue})
		if err != nil {
			t.Fatal(err)
		}
		for offset := range letters {
			if err := sink.Send(t.Context(), letter(offset)); err != nil {
				t.Fatal(err)
			}
		}
		r := clitest.Run(t, "redrive", "--queue-url", queue, "--dry-run")
		if r.Code != 0 || strings.Contains(r.Err, "hold back") != says {
			t.Errorf("%d letters: %+v", letters, r)
		}
	}
}

// So does a letter that is in a topic.
func TestLettersOfMessagesInATopic(t *testing.T) {
	t.Parallel()
	client, source := awstest.NewQueue(t, "payments")
	cluster := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"), kfake.SeedTopics(1, "letters"))
	topic, err := topicletters.New(topicletters.Config{Topic: "letters", Options: []kgo.Opt{kgo.SeedBrokers(cluster)}})
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	if err := topic.Send(t.Context(), messageLetter(t, "payments", "m-1")); err != nil {
		t.Fatal(err)
	}
	r := clitest.Run(t, "redrive", "--dead-letter-topic", "letters", "--brokers", cluster, "--yes",
		"--endpoint-url", *client.Options().BaseEndpoint)
	if r.Code != 0 || !strings.Contains(r.Err, "1 redriven") {
		t.Errorf("%+v", r)
	}
	wantMessage(t, drain(t, client, source), "payments")
}

// wantMessage checks the message that was sent back.
func wantMessage(t *testing.T, got []types.Message, queue string) {
	t.Helper()
	if len(got) != 1 || *got[0].Body != `{"paymentId":"m-1"}` {
		t.Fatalf("%s has %+v", queue, got)
	}
	var attributes []string
	for name, a := range got[0].MessageAttributes {
		attributes = append(attributes, name+" "+*a.DataType+" "+aws.ToString(a.StringValue)+string(a.BinaryValue))
	}
	slices.Sort(attributes)
	redriven := attributes[2]
	attributes = slices.Delete(attributes, 2, 3)
	if !slices.Equal(attributes, []string{"b Binary \x00\xff", "idempotency-key String m-1", "n Number.int 7", "t Binary.text text"}) ||
		!strings.HasPrefix(redriven, "idemsk-redrive String 17") {
		t.Errorf("attributes %q, %q", attributes, redriven)
	}
	if got[0].Attributes["MessageGroupId"] != "acc-1" {
		t.Errorf("attributes %v", got[0].Attributes)
	}
}

// drain takes the messages out of a queue.
func drain(t *testing.T, client *awssqs.Client, url string) (all []types.Message) {
	t.Helper()
	for {
		out, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &url, MaxNumberOfMessages: 10,
			MessageAttributeNames:       []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return all
		}
		for _, m := range out.Messages {
			if _, err := client.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: &url,
				ReceiptHandle: m.ReceiptHandle}); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, out.Messages...)
	}
}

// A function gets the message as its queue delivers it, and only an answer that names its outcome lets the letter
// go: a function that expects the records of a topic finds none in the event.
func TestFunctionGetsTheMessage(t *testing.T) {
	t.Parallel()
	l := messageLetter(t, "payments", "m-1")
	for answered, where := range map[string]string{
		`{"batchItemFailures":[],"idemskOutcomes":[{"messageId":"m-1","outcome":"Executed"}]}`: "the function pay: executed",
		`{"batchItemFailures":[],"idemskOutcomes":[{"messageId":"m-2","outcome":"Executed"}]}`: "",
		`{"batchItemFailures":[{"itemIdentifier":"m-1"}]}`:                                     "",
		`{"batchItemFailures":[]}`: "", `null`: "", `{}`: "",
	} {
		dst, event := newFunction(t, answer{payload: answered})
		got, err := dst.Send(t.Context(), &l)
		if got != where || (err == nil) != (where != "") {
			t.Errorf("%s: %q, %v; want %q", answered, got, err, where)
		}
		e, err := lambdasqs.Decode(*event)
		if err != nil || !lambdasqs.IsEvent(*event) || !e.Outcomes {
			t.Fatalf("%s: %v", *event, err)
		}
		r := &e.Records[0]
		var attributes []string
		for _, h := range r.Headers {
			if !strings.HasPrefix(h.Key, "idemsk-redrive") {
				attributes = append(attributes, h.Key+" "+string(h.Value))
			}
		}
		var want []string
		for _, h := range l.Headers {
			if !strings.Contains(h.Key, "idemsk-redrive") {
				want = append(want, h.Key+" "+string(h.Value))
			}
		}
		if r.Undecodable != nil || lambdasqs.MessageID(r) != "m-1" || r.Offset != l.Offset || string(r.Value) != string(l.Value) ||
			string(r.Key) != "acc-1" || !slices.Equal(attributes, want) || e.ARN != l.Cluster {
			t.Errorf("the event is %s", *event)
		}
	}
}

// A cluster alone takes no message of a queue.
func TestMessageIsNotSentToATopic(t *testing.T) {
	t.Parallel()
	l := messageLetter(t, "payments", "m-1")
	k := dial(t, newCluster(t))
	src := &listSource{bodies: bodies(t, l)}
	results, _ := runAll(t, redrive.Options{Source: src, Destination: k, Reader: k})
	if r := results[0]; r.Outcome != redrive.NotRedriven || len(src.done) > 0 ||
		!strings.Contains(r.Error, "it is a message of the queue arn:aws:sqs:us-east-1:000000000000:payments") {
		t.Errorf("%+v, taken out %v", r, src.done)
	}
}

// A message that can't be sent back stays, with the reason.
func TestMessagesThatCannotBeSentBack(t *testing.T) {
	t.Parallel()
	client, _ := awstest.NewQueue(t, "payments")
	dead := awstest.CreateQueue(t, client, "letters")
	sink, err := sqs.New(client, sqs.Config{URL: dead})
	if err != nil {
		t.Fatal(err)
	}
	many, undecoded := messageLetter(t, "payments", "many"), messageLetter(t, "payments", "undecoded")
	for _, name := range strings.Split("cdefgh", "") {
		many.Headers = append(many.Headers, kafka.DeadHeader{Key: name, Value: []byte("v")})
	}
	undecoded.Undecoded, undecoded.Value = []byte("{}"), nil
	awstest.CreateQueue(t, client, "small", "MaximumMessageSize", "1024")
	large := messageLetter(t, "small", "m-1")
	large.Value = []byte(strings.Repeat("x", 1000))
	for i, l := range []kafka.DeadLetter{messageLetter(t, "deleted", "m-1"), many, undecoded, large} {
		l.Token += int64(i)
		if err := sink.Send(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ queue, says string }{
		{"deleted", "looking for the queue arn:aws:sqs:us-east-1:000000000000:deleted"},
		{"payments", "would have 11 attributes with idemsk-redrive, and SQS accepts 10"},
		{"payments", "can't be decoded"},
		{"small", "that is too large with idemsk-redrive goes by --function-name"},
	} {
		r := clitest.Run(t, "redrive", "--queue-url", dead, "--yes", "--of-cluster", "arn:aws:sqs:us-east-1:000000000000:"+step.queue)
		if r.Code != 1 || !strings.Contains(r.Err, step.says) {
			t.Errorf("%+v; want %q", r, step.says)
		}
	}
	if left := drain(t, client, dead); len(left) != 4 {
		t.Errorf("%d letters are left", len(left))
	}
}

// A part of an on-failure record is discarded only if the whole leaves its source.
func TestDiscardOfAPart(t *testing.T) {
	t.Parallel()
	keyed := func(keys ...string) []byte {
		var records []string
		for _, key := range keys {
			records = append(records, `{\"offset\":7,\"key\":\"`+key+`\",\"value\":\"e30=\"}`)
		}
		return []byte(`{"KafkaBatchInfo":{"batchSize":2},"payload":"{\"records\":{\"payments-0\":[` +
			strings.Join(records, ",") + `]}}"}`)
	}
	for name, tc := range map[string]struct {
		body      []byte
		limit     int
		discarded bool
	}{
		"another key":      {keyed("YQ==", "Yg=="), 0, false},
		"the last one":     {keyed("Yg==", "YQ=="), 0, false},
		"one key":          {keyed("YQ==", "YQ=="), 0, true},
		"one key, a limit": {keyed("YQ==", "YQ=="), 1, false},
		"only places":      {onFailure(2, "1:0-1"), 0, false},
		"a place":          {onFailure(1, "1:0-0"), 0, true},
		"a place, a limit": {onFailure(1, "1:0-0"), 1, true},
	} {
		c := newCluster(t)
		fillPayments(t, c, 1, 2)
		src := &listSource{bodies: [][]byte{tc.body}}
		key := "a"
		if strings.Contains(name, "place") {
			key = "k0"
		}
		results, _ := runAll(t, redrive.Options{Source: src, Discard: true, Key: key, Limit: tc.limit, Ranges: dial(t, c)})
		for _, r := range results {
			said := r.Outcome == redrive.Discarded
			if said != tc.discarded || said != (len(src.done) == 1) || !said && !strings.Contains(r.Error, "leaves its source as a whole") {
				t.Errorf("%s: %+v, taken out %v", name, r, src.done)
			}
		}
		if len(results) == 0 {
			t.Errorf("%s: no results", name)
		}
	}
}
