package deadletters_test

import (
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	topicletters "github.com/idemsk/idemsk/kafka/deadletter/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// letters is the topic of dead letters. It has one partition.
const letters = "payments-dead-letters"

// patience is the maximum time that a test waits for records.
const patience = 2 * time.Minute

func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	loopback := kfake.ListenFn(func(_, _ string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	})
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, letters),
		loopback}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newTopic returns the topic of the brokers, with a timeout of three seconds.
func newTopic(t *testing.T, brokers []string, options ...kgo.Opt) *topicletters.Topic {
	t.Helper()
	topic, err := topicletters.New(topicletters.Config{Topic: letters,
		Options: append(options, kgo.SeedBrokers(brokers...)), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(topic.Close)
	return topic
}

// configure changes a setting of the topic.
func configure(t *testing.T, brokers []string, name, value string) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, letters
	r.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}}
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Resources[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

// read returns the first n records of the topic.
func read(t *testing.T, brokers []string, n int) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(letters))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(records) < n {
		records = append(records, client.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			t.Fatalf("%d records are in the topic; want %d", len(records), n)
		}
	}
	return records
}

// readLetters returns the first n letters of the topic.
func readLetters(t *testing.T, brokers []string, n int) (found []kafka.DeadLetter) {
	t.Helper()
	for _, r := range read(t, brokers, n) {
		l, err := topicletters.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, l)
	}
	return found
}

func letter() kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "payments", Partition: 3, Offset: 17, Key: []byte("acc-1"), Value: []byte(`{"amount":1250}`),
		Headers:        []kafka.DeadHeader{{Key: "idempotency-key", Value: []byte("a")}},
		IdempotencyKey: "ledger#payments#a", Token: 1767225600001, Attempts: 5,
		Error: store.Failure{Code: store.CodeExhausted, Message: "boom",
			At: time.UnixMilli(1767225600002).UTC()},
	}
}

// letterOf is the letter with something changed.
func letterOf(change func(l *kafka.DeadLetter)) kafka.DeadLetter {
	l := letter()
	change(&l)
	return l
}

// noise returns bytes that can't be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b) // never fails
	return b
}
