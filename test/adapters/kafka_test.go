package adapters_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/test/adapters"
)

const (
	topic      = "payments"
	partitions = 2
	session    = 6 * time.Second // after which a member that died is expelled: the least that a broker allows
	heartbeat  = 500 * time.Millisecond
)

// client runs a member of the group until ctx ends.
type client func(ctx context.Context, broker, topic string, p *kafka.Processor) error

var clients = map[string]client{"kafka-go": runKafkaGo, "sarama": runSarama}

func runKafkaGo(ctx context.Context, broker, topic string, p *kafka.Processor) error {
	reader := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{broker}, Topic: topic, GroupID: groupOf(topic),
		SessionTimeout: session, HeartbeatInterval: heartbeat, MaxWait: 100 * time.Millisecond})
	return errors.Join(adapters.KafkaGo(ctx, reader, p), reader.Close())
}

func runSarama(ctx context.Context, broker, topic string, p *kafka.Processor) error {
	cfg := sarama.NewConfig()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Group.Session.Timeout, cfg.Consumer.Group.Heartbeat.Interval = session, heartbeat
	members, err := sarama.NewConsumerGroup([]string{broker}, groupOf(topic), cfg)
	if err != nil {
		return err
	}
	for err == nil && ctx.Err() == nil { // Consume returns at each rebalance
		err = members.Consume(ctx, []string{topic}, adapters.Sarama{Processor: p})
	}
	return errors.Join(ctx.Err(), err, members.Close())
}

func newProcessor(engine *idem.Engine, handle kafka.HandlerFunc, letters kafka.DeadLetters) (*kafka.Processor, error) {
	return kafka.NewProcessor(engine, handle, kafka.Config{Namespace: "ledger", DeadLetters: letters,
		Logger: slog.New(slog.DiscardHandler)})
}

// letters are dead letters.
type letters struct {
	mu  sync.Mutex
	all []string // their places
}

// Send implements kafka.DeadLetters.
func (l *letters) Send(_ context.Context, letter kafka.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, letter.Source())
	return nil
}

// startKafka starts a broker in this process, and returns its address.
func startKafka(t *testing.T) string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic),
		kfake.ListenFn(func(_, _ string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// produce produces a record with an idempotency key to a partition.
func produce(t *testing.T, broker, topic string, partition int32, key, value string) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value),
		Headers: []kgo.RecordHeader{{Key: kafka.DefaultKeyHeader, Value: []byte(key)}}}
	if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func idempotencyKey(r kafka.Record) string {
	for value := range r.Header(kafka.DefaultKeyHeader) {
		return string(value)
	}
	return ""
}

func TestKafka(t *testing.T) {
	for name, run := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKafka(t, name, run, startKafka(t), topic)
		})
	}
}

// testKafka tests a client on a broker, where the topic has no records yet.
func testKafka(t *testing.T, name string, run client, broker, topic string) {
	t.Helper()
	url := startStore(t)
	produce(t, broker, topic, 0, "dies", "5")
	processDies(t, name, url, broker, topic)
	produce(t, broker, topic, 0, "twice", "5")
	produce(t, broker, topic, 1, "fails once", "5")
	produce(t, broker, topic, 1, "twice", "5")
	produce(t, broker, topic, 1, "fails", "5")
	produce(t, broker, topic, 1, "twice", "6") // another request
	l, dead := newLedger(), new(letters)
	l.failing["fails once"] = []error{errors.New("the bank is closed")}
	l.failing["fails"] = slices.Repeat([]error{idem.Permanent(errors.New("no such account"))}, 9)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var members sync.WaitGroup
	for range 2 {
		p, err := newProcessor(mustEngine(t, url), func(ctx context.Context, r kafka.Record) ([]byte, error) {
			return l.book(ctx, idempotencyKey(r))
		}, dead)
		if err != nil {
			t.Fatal(err)
		}
		members.Go(func() {
			if err := run(ctx, broker, topic, p); !errors.Is(err, context.Canceled) {
				t.Errorf("the member ended: %v", err)
			}
		})
	}
	untilCommitted(t, broker, topic, 2, 4)
	stop()
	members.Wait()
	l.want(t, map[string]int{"dies": 2, "twice": 1, "fails once": 2})
	if want := []string{topic + "-1@2", topic + "-1@3"}; !slices.Equal(dead.all, want) {
		t.Errorf("the dead letters are those of %q; want %q", dead.all, want)
	}
}

// untilCommitted waits until the group of a topic has committed these offsets, from partition 0 on.
func untilCommitted(t *testing.T, broker, topic string, offsets ...int64) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until(t, "all offsets are committed", func() bool {
		committed, err := kadm.NewClient(c).FetchOffsets(t.Context(), groupOf(topic))
		for p, want := range offsets {
			if o, ok := committed.Lookup(topic, int32(p)); err != nil || !ok || o.At != want {
				return false
			}
		}
		return true
	})
}

func groupOf(topic string) string { return "ledger-of-" + topic }

// dyingKafka is the process that dies.
func dyingKafka(engine *idem.Engine, run client) error {
	p, err := newProcessor(engine, func(ctx context.Context, _ kafka.Record) ([]byte, error) { return die(ctx) }, nil)
	if err != nil {
		return err
	}
	return run(context.Background(), os.Getenv(brokerVariable), os.Getenv(topicVariable), p)
}
