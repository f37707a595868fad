//go:build rest

package deadletters_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/kafkatest"
	"github.com/idemsk/idemsk/kafka"
)

// On a real Kafka: letters are kept whole, reduced if they are too large, and refused if the topic does not
// exist or is compacted.
func TestTopicOfARealKafka(t *testing.T) {
	server := testkit.Run(t, serverproc.StartScript, serverproc.Kafka)
	brokers := []string{server.Addr()}
	topic := newTopic(t, brokers)
	if err := topic.Send(t.Context(), letter()); !errors.Is(err, kerr.UnknownTopicOrPartition) ||
		!strings.Contains(err.Error(), "create it") {
		t.Errorf("without the topic: %v", err)
	}
	kafkatest.CreateTopic(t, server.Addr(), letters, 1, nil)
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
	if err := newTopic(t, brokers).Send(t.Context(), letter()); err == nil ||
		!strings.Contains(err.Error(), "cleanup.policy=delete") {
		t.Errorf("a compacted topic: %v", err)
	}
	// The first client knows the topic already: Kafka itself refuses a letter without a key.
	keyless := letterOf(func(l *kafka.DeadLetter) { l.Key = nil })
	if err := topic.Send(t.Context(), keyless); !errors.Is(err, kerr.InvalidRecord) ||
		!strings.Contains(err.Error(), "cleanup.policy=delete") {
		t.Errorf("a compacted topic and no key: %v", err)
	}
}
