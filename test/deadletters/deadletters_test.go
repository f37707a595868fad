package deadletters_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/kafka"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

// shapes are letters whose records differ in what Kafka can distinguish.
func shapes() []kafka.DeadLetter {
	return []kafka.DeadLetter{
		letter(),
		letterOf(func(l *kafka.DeadLetter) { l.Key, l.Value, l.Headers = nil, nil, nil }),
		letterOf(func(l *kafka.DeadLetter) { l.Key, l.Value = []byte{}, []byte{} }),
		letterOf(func(l *kafka.DeadLetter) { l.Key, l.Value = []byte("\x00\xff"), []byte("\xff\x00") }),
		letterOf(func(l *kafka.DeadLetter) {
			l.Headers = []kafka.DeadHeader{{Key: "h", Value: []byte("1")}, {Key: "h"},
				{Key: "h", Value: []byte{}}, {Key: "idemsk-redrive", Value: []byte("7")}}
		}),
		letterOf(func(l *kafka.DeadLetter) {
			l.Headers = []kafka.DeadHeader{{Key: "idemsk-dead-letter", Value: []byte("1")}}
		}),
		letterOf(func(l *kafka.DeadLetter) { l.Undecoded, l.Value = []byte(`{"value":17}`), nil }),
		letterOf(func(l *kafka.DeadLetter) { l.Token, l.Attempts = 0, 0 }),
	}
}

func TestTopicKeepsTheRecordAndTheFailure(t *testing.T) {
	brokers := newCluster(t).ListenAddrs()
	keepsShapes(t, brokers)
}

func keepsShapes(t *testing.T, brokers []string) {
	t.Helper()
	topic := newTopic(t, brokers)
	for i, l := range shapes() {
		if err := topic.Send(t.Context(), l); err != nil {
			t.Fatalf("letter %d: %v", i, err)
		}
	}
	for i, r := range read(t, brokers, len(shapes())) {
		want := shapes()[i]
		got, err := topicletters.Parse(r)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("letter %d: %+v, %v; want %+v", i, got, err, want)
		}
		if want.Undecoded == nil && (!reflect.DeepEqual(r.Key, want.Key) ||
			!reflect.DeepEqual(r.Value, want.Value)) {
			t.Errorf("letter %d: the record has the key %q and the value %q", i, r.Key, r.Value)
		}
	}
}

func TestSendReducesALetterThatTheTopicRefuses(t *testing.T) {
	brokers := newCluster(t).ListenAddrs()
	configure(t, brokers, "max.message.bytes", "4000")
	topic := newTopic(t, brokers)
	sent := []kafka.DeadLetter{
		letterOf(func(l *kafka.DeadLetter) { l.Value = noise(5000) }),
		letterOf(func(l *kafka.DeadLetter) { l.Value, l.Headers[0].Value = noise(5000), noise(5001) }),
		letterOf(func(l *kafka.DeadLetter) { l.Undecoded, l.Value = noise(5000), []byte("v") }),
		letterOf(func(l *kafka.DeadLetter) { l.Value = noise(3000) }),
		letterOf(func(l *kafka.DeadLetter) { l.Value = make([]byte, 5000) }), // the batch is compressed
	}
	want := []kafka.DeadLetter{
		letterOf(func(l *kafka.DeadLetter) { l.Value, l.ValueOmitted = nil, 5000 }),
		letterOf(func(l *kafka.DeadLetter) {
			l.Value, l.ValueOmitted, l.Headers, l.Omitted = nil, 5000, nil, []string{"headers"}
		}),
		letterOf(func(l *kafka.DeadLetter) {
			l.Value, l.Headers, l.Omitted = nil, nil,
				[]string{"headers", "undecoded"}
		}),
		sent[3], sent[4],
	}
	for i, l := range sent {
		if err := topic.Send(t.Context(), l); err != nil {
			t.Fatalf("letter %d: %v", i, err)
		}
	}
	for i, got := range readLetters(t, brokers, len(sent)) {
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("letter %d: %+v; want %+v", i, got, want[i])
		}
	}
	err := topic.Send(t.Context(), letterOf(func(l *kafka.DeadLetter) { l.Cluster = string(noise(5000)) }))
	if !errors.Is(err, kafka.ErrDeadLetterTooLarge) || !strings.Contains(err.Error(), "payments-3@17") ||
		!strings.Contains(err.Error(), "max.message.bytes") {
		t.Errorf("a letter that can't be reduced: %v", err)
	}
}

// Nothing is left out of the letter of a queue's message. It is not sent if the topic refuses it.
func TestLetterOfAMessageThatTheTopicRefuses(t *testing.T) {
	brokers := newCluster(t).ListenAddrs()
	configure(t, brokers, "max.message.bytes", "4000")
	topic := newTopic(t, brokers)
	of := func(size int) kafka.DeadLetter {
		return letterOf(func(l *kafka.DeadLetter) {
			l.Cluster, l.Headers[0].Value = "arn:aws:sqs:us-east-1:123456789012:payments", noise(size)
		})
	}
	err := topic.Send(t.Context(), of(5000))
	for _, want := range []string{"payments-3@17", "deleted from its queue", "max.message.bytes", "IDEMSK_DEAD_LETTER_BUCKET"} {
		if !errors.Is(err, kafka.ErrDeadLetterTooLarge) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	want := of(2000)
	if err := topic.Send(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got := readLetters(t, brokers, 1); !reflect.DeepEqual(got, []kafka.DeadLetter{want}) {
		t.Errorf("%+v; want %+v", got, want)
	}
}

// The client puts letters that are sent at the same time into one batch, which may be too large although each
// letter is not. Letters are sent until that has happened.
func TestLettersSentTogetherKeepTheirValues(t *testing.T) {
	const together, limit = 50, 4000
	c := newCluster(t)
	brokers := c.ListenAddrs()
	configure(t, brokers, "max.message.bytes", strconv.Itoa(limit))
	topic := newTopic(t, brokers)
	var tooLarge atomic.Int64 // batches
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, t := range req.(*kmsg.ProduceRequest).Topics {
			for _, p := range t.Partitions {
				if len(p.Records) > limit {
					tooLarge.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	n := 0
	for tooLarge.Load() == 0 {
		var senders sync.WaitGroup
		for range together {
			offset := int64(n)
			n++
			senders.Go(func() {
				if err := topic.Send(t.Context(),
					letterOf(func(l *kafka.DeadLetter) {
						l.Offset, l.Value = offset,
							noise(3000)
					})); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
	}
	seen := make(map[int64]bool)
	for _, l := range readLetters(t, brokers, n) {
		if seen[l.Offset] || len(l.Value) != 3000 {
			t.Errorf("%s: %d bytes, or twice", l.Source(), len(l.Value))
		}
		seen[l.Offset] = true
	}
}

func TestErrorsNameTheRemedy(t *testing.T) {
	user := kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism())
	refuse := func(key kmsg.Key, err *kerr.Error, count int) func(*testing.T, *kfake.Cluster) {
		return func(_ *testing.T, c *kfake.Cluster) {
			c.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: count, TopLevel: key != kmsg.Produce})
		}
	}
	for name, tc := range map[string]struct {
		cluster []kfake.Opt
		prepare func(t *testing.T, c *kfake.Cluster)
		options []kgo.Opt
		says    string
		is      error
	}{
		"unknown topic": {prepare: func(t *testing.T, c *kfake.Cluster) {
			if err := c.DeleteTopic(letters); err != nil {
				t.Fatal(err)
			}
		}, says: "create it", is: kerr.UnknownTopicOrPartition},
		"compacted": {prepare: func(t *testing.T, c *kfake.Cluster) {
			configure(t, c.ListenAddrs(), "cleanup.policy", "compact,delete")
		}, says: "cleanup.policy=delete"},
		"may not write": {prepare: refuse(kmsg.Produce, kerr.TopicAuthorizationFailed, 1),
			says: "kafka-cluster:WriteData", is: kerr.TopicAuthorizationFailed},
		"may not write idempotently": {prepare: refuse(kmsg.InitProducerID, kerr.ClusterAuthorizationFailed,
			-1), says: "kafka-cluster:WriteDataIdempotently", is: kerr.ClusterAuthorizationFailed},
		"a compacted topic, no key": {prepare: refuse(kmsg.Produce, kerr.InvalidRecord, 1),
			says: "cleanup.policy=delete", is: kerr.InvalidRecord},
		"too few replicas": {prepare: refuse(kmsg.Produce, kerr.NotEnoughReplicas, -1),
			says: "min.insync.replicas"},
		"wrong credentials": {
			cluster: []kfake.Opt{kfake.EnableSASL()}, options: []kgo.Opt{user},
			prepare: refuse(kmsg.SASLAuthenticate, kerr.SaslAuthenticationFailed, -1),
			says:    "refuse the credentials", is: kerr.SaslAuthenticationFailed,
		},
		"a connection that is closed": {
			cluster: []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "other")},
			options: []kgo.Opt{user}, says: "the right TLS and SASL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, tc.cluster...)
			if tc.prepare != nil {
				tc.prepare(t, c)
			}
			err := newTopic(t, c.ListenAddrs(), tc.options...).Send(t.Context(), letter())
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) {
				t.Fatalf("error %v; want %v", err, tc.is)
			}
			for _, want := range []string{tc.says, "payments-3@17", letters} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
		})
	}
}

// A topic that did not exist, or was compacted, is used when the operator has fixed it.
func TestSendSucceedsWhenTheTopicIsFixed(t *testing.T) {
	brokers := newCluster(t).ListenAddrs()
	configure(t, brokers, "cleanup.policy", "compact")
	topic := newTopic(t, brokers)
	if err := topic.Send(t.Context(), letter()); err == nil {
		t.Error("a letter was sent to a compacted topic")
	}
	configure(t, brokers, "cleanup.policy", "delete")
	if err := topic.Send(t.Context(), letter()); err != nil {
		t.Error(err)
	}
	readLetters(t, brokers, 1)
}

// A client that may write to the topic and not read its settings sends letters.
func TestSendNeedsNoPermissionToReadSettings(t *testing.T) {
	c := newCluster(t)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed,
		Count: -1})
	if err := newTopic(t, c.ListenAddrs()).Send(t.Context(), letter()); err != nil {
		t.Error(err)
	}
}

// The letter is not sent until all in-sync replicas have it.
func TestSendWaitsForTheReplicas(t *testing.T) {
	c := newCluster(t)
	faults := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: 3})
	if err := newTopic(t, c.ListenAddrs()).Send(t.Context(), letter()); err != nil || faults.Hits() != 3 {
		t.Errorf("%v after %d refusals; want none after 3", err, faults.Hits())
	}
	readLetters(t, c.ListenAddrs(), 1)
}
