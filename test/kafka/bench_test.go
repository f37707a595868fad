package kafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// BenchmarkConsumer compares the consumer on the memory store with a bare poll loop of franz-go that calls
// the same trivial handler. One iteration is a round of both, in turns, over the same records of a Kafka in
// this process. It measures CPU time, with that of the broker, because the throughput depends on what else
// runs on the machine. ratio is the time of the loop as a part of that of the consumer, the median of the
// rounds. floor-ratio is the same of a loop that claims the records of each poll in one call and runs one
// after another, without lanes, windows and concurrency: what is possible with this engine and this store.
func BenchmarkConsumer(b *testing.B) {
	const records = 100_000
	cluster := benchCluster(b, records, 1000)
	var ratios, floors, loops, consumers []float64
	for b.Loop() {
		loop := cpuTime(b, func() { pollLoop(b, cluster, records, func([]*kgo.Record) {}) })
		floor := cpuTime(b, func() { engineLoop(b, cluster, records) })
		own := cpuTime(b, func() { consume(b, cluster, records) })
		ratios, floors = append(ratios, loop/own), append(floors, loop/floor)
		loops, consumers = append(loops, loop), append(consumers, own)
	}
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(median(floors), "floor-ratio")
	b.ReportMetric(median(loops)/records*1e6, "loop-µs/record")
	b.ReportMetric(median(consumers)/records*1e6, "consumer-µs/record")
	b.ReportMetric(0, "ns/op")
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// cpuTime returns the seconds of CPU time that this process takes to run something.
func cpuTime(b *testing.B, run func()) float64 {
	b.Helper()
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	}
	before := used()
	run()
	return used() - before
}

// benchCluster returns a cluster whose topic has records with a number of Kafka keys, in 12 partitions.
func benchCluster(b *testing.B, records, keys int) *kfake.Cluster {
	b.Helper()
	cluster := newCluster(b)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	first := kgo.AbortingFirstErrPromise(client)
	for i := range records {
		client.Produce(b.Context(), benchRecord(i, keys), first.Promise())
	}
	if err := first.Err(); err != nil {
		b.Fatal(err)
	}
	return cluster
}

// benchRecord returns a payment whose idempotency key is its number.
func benchRecord(n, keys int) *kgo.Record {
	return &kgo.Record{Key: strconv.AppendInt(nil, int64(n%keys), 10), Value: fmt.Appendf(nil, `{"amount":%d}`, n),
		Headers: []kgo.RecordHeader{{Key: kafka.DefaultKeyHeader, Value: strconv.AppendInt(nil, int64(n), 10)}}}
}

func newCluster(b *testing.B) *kfake.Cluster {
	b.Helper()
	listen := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(12, topic), kfake.ListenFn(listen))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cluster.Close)
	return cluster
}

// engineLoop is a poll loop that runs the records of each poll as a batch.
func engineLoop(b *testing.B, cluster *kfake.Cluster, records int) {
	b.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
	if err != nil {
		b.Fatal(err)
	}
	handler := idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil })
	pollLoop(b, cluster, records, func(polled []*kgo.Record) {
		items := make([]*idem.Item, len(polled))
		for i, r := range polled {
			items[i] = &idem.Item{Task: idem.Task{Key: string(r.Headers[0].Value),
				Fingerprint: store.FingerprintOf(r.Value), Handler: handler}}
		}
		scheduler.Run(b.Context(), [][]*idem.Item{items})
	})
}

func pollLoop(b *testing.B, cluster *kfake.Cluster, records int, handle func([]*kgo.Record)) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics(topic))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for n := 0; n < records; {
		client.PollFetches(b.Context()).EachPartition(func(p kgo.FetchTopicPartition) {
			handle(p.Records)
			n += len(p.Records)
		})
	}
}

func consume(b *testing.B, cluster *kfake.Cluster, records int) {
	b.Helper()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var n atomic.Int64
	c, err := consumer.New(engine, kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) {
		if n.Add(1) == int64(records) {
			stop()
		}
		return nil, nil
	}), consumer.Config{Brokers: cluster.ListenAddrs(), Topics: []string{topic},
		Group: "bench-" + rand.Text()})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		b.Error(err)
	}
}
