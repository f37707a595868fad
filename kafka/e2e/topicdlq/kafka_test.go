//go:build servers

package topicdlq_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/internal/serverproc"
	"github.com/idemsk/idemsk/kafka"
)

// On a real Kafka: letters are kept whole, reduced if they are too large, and refused if the topic does not exist or is compacted.
func TestTopicOfARealKafka(t *testing.T) {
	server, err := serverproc.StartScript(t.Context(), serverproc.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	brokers := []string{server.Addr()}
	topic := newTopic(t, brokers)
	if err := topic.Send(t.Context(), letter()); !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("without the topic: %v", err)
	}
	create(t, brokers)
	keepsShapes(t, brokers)
	n := len(shapes())
	large := letterOf(func(l *kafka.DeadLetter) { l.Value = noise(2 << 20) })
	if err := topic.Send(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	want := letterOf(func(l *kafka.DeadLetter) { l.Value, l.ValueOmitted = nil, 2<<20 })
	if got := readLetters(t, brokers, n+1)[n]; !reflect.DeepEqual(got, want) {
		t.Errorf("the large letter is %+v; want %+v", got, want)
	}
	configure(t, brokers, "cleanup.policy", "compact")
	if err := newTopic(t, brokers).Send(t.Context(), letter()); err == nil || !strings.Contains(err.Error(), "cleanup.policy=delete") {
		t.Errorf("a compacted topic: %v", err)
	}
	// The first client knows the topic already: Kafka itself refuses a letter without a key.
	keyless := letterOf(func(l *kafka.DeadLetter) { l.Key = nil })
	if err := topic.Send(t.Context(), keyless); !errors.Is(err, kerr.InvalidRecord) || !strings.Contains(err.Error(), "cleanup.policy=delete") {
		t.Errorf("a compacted topic and no key: %v", err)
	}
}

// create makes the topic.
func create(t *testing.T, brokers []string) {
	t.Helper()
	admin, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = letters, 1, 1
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
	await(t, admin)
}

// await waits until the broker hosts the topic that the controller has created.
func await(t *testing.T, admin *kgo.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(letters)
	req.Topics = append(req.Topics, topic)
	for {
		resp, err := req.RequestWith(ctx, admin)
		if err != nil {
			t.Fatalf("the topic %s did not appear: %v", letters, err)
		}
		if resp.Topics[0].ErrorCode == 0 {
			return
		}
	}
}
