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
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/test/adapters"
)

const (
	topic      = "payments"
	group      = "ledger"
	partitions = 2
	session    = 3 * time.Second // after which a member that died is expelled
	heartbeat  = 500 * time.Millisecond
)

// client runs a member of the group until ctx ends.
type client func(ctx context.Context, broker string, p *kafka.Processor) error

var clients = map[string]client{"kafka-go": runKafkaGo, "sarama": runSarama}

func runKafkaGo(ctx context.Context, broker string, p *kafka.Processor) error {
	reader := kafkago.NewReader(kafkago.ReaderConfig{Brokers: []string{broker}, Topic: topic, GroupID: group,
		SessionTimeout: session, HeartbeatInterval: heartbeat, MaxWait: 100 * time.Millisecond})
	return errors.Join(adapters.KafkaGo(ctx, reader, p), reader.Close())
}

func runSarama(ctx context.Context, broker string, p *kafka.Processor) error {
	cfg := sarama.NewConfig()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Group.Session.Timeout, cfg.Consumer.Group.Heartbeat.Interval = session, heartbeat
	members, err := sarama.NewConsumerGroup([]string{broker}, group, cfg)
	if err != nil {
		return err
	}
	for err == nil && ctx.Err() == nil { // Consume returns at each rebalance
		err = members.Consume(ctx, []string{topic}, adapters.Sarama{Processor: p})
	}
	return errors.Join(ctx.Err(), err, members.Close())
}

func newProcessor(engine *idem.Engine, handle kafka.HandlerFunc, letters kafka.DeadLetters) (*kafka.Processor, error) {
	return kafka.NewProcessor(engine, handle, kafka.Config{Namespace: group, DeadLetters: letters,
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

func startKafka(t *testing.T) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic),
		kfake.GroupMinSessionTimeout(time.Second), kfake.ListenFn(func(_, _ string) (net.Listener, error) {
			return new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// produce produces a record with an idempotency key to a partition.
func produce(t *testing.T, broker string, partition int32, key, value string) {
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
			url, cluster := startStore(t), startKafka(t)
			broker := cluster.ListenAddrs()[0]
			produce(t, broker, 0, "dies", "5")
			processDies(t, name, url, broker)
			produce(t, broker, 0, "twice", "5")
			produce(t, broker, 1, "fails once", "5")
			produce(t, broker, 1, "twice", "5")
			produce(t, broker, 1, "fails", "5")
			produce(t, broker, 1, "twice", "6") // another request
			l, dead := newLedger(), new(letters)
			l.failing["fails once"] = []error{errors.New("the bank is closed")}
			l.failing["fails"] = slices.Repeat([]error{idem.Permanent(errors.New("no such account"))}, 9)
			ctx, stop := context.WithCancel(t.Context())
			var members sync.WaitGroup
			for range 2 {
				p, err := newProcessor(mustEngine(t, url), func(ctx context.Context, r kafka.Record) ([]byte, error) {
					return l.book(ctx, idempotencyKey(r))
				}, dead)
				if err != nil {
					t.Fatal(err)
				}
				members.Go(func() {
					if err := run(ctx, broker, p); !errors.Is(err, context.Canceled) {
						t.Errorf("the member ended: %v", err)
					}
				})
			}
			until(t, "all offsets are committed", func() bool {
				info := cluster.GroupInfo(group)
				return info != nil && info.Commits[topic][0].Offset == 2 && info.Commits[topic][1].Offset == 4
			})
			stop()
			members.Wait()
			l.want(t, map[string]int{"dies": 2, "twice": 1, "fails once": 2})
			if want := []string{"payments-1@2", "payments-1@3"}; !slices.Equal(dead.all, want) {
				t.Errorf("the dead letters are those of %q; want %q", dead.all, want)
			}
		})
	}
}

// dyingKafka is the process that dies.
func dyingKafka(engine *idem.Engine, run client) error {
	p, err := newProcessor(engine, func(ctx context.Context, _ kafka.Record) ([]byte, error) { return die(ctx) }, nil)
	if err != nil {
		return err
	}
	return run(context.Background(), os.Getenv(brokerVariable), p)
}
