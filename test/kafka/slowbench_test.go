package kafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// BenchmarkSlowHandlers measures how near a consumer process comes to concurrency / latency, with handlers of
// 100 ms and records of 10,000 Kafka keys in 12 partitions, on a store that answers a request of 25 keys after
// 5 ms. Broker and store are in this process. One operation is a record; limit-% is the throughput as a part
// of the limit, without the first and the last second of the handlers.
func BenchmarkSlowHandlers(b *testing.B) {
	const took = 100 * time.Millisecond
	for _, concurrency := range []int{32, 1000, 10_000} {
		b.Run(fmt.Sprint("concurrency ", concurrency), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
			limit := float64(concurrency) / took.Seconds()
			records := int(8 * limit)
			cluster := benchCluster(b, records, 10_000)
			var rates []float64
			var memory uint64
			for b.Loop() {
				rate, used := slowly(b, cluster.ListenAddrs(), records, concurrency, took)
				rates, memory = append(rates, rate), max(memory, used)
			}
			b.ReportMetric(100*median(rates)/limit, "limit-%")
			b.ReportMetric(median(rates), "records/s")
			b.ReportMetric(float64(memory)/(1<<20), "MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// slowly consumes records with handlers that take a time. It returns how many handlers a second returned,
// between an eighth and seven eighths of them, and the memory in use then.
func slowly(b *testing.B, brokers []string, records, concurrency int, took time.Duration) (rate float64,
	memory uint64) {
	b.Helper()
	engine, err := idem.New(slowStore(storeLatency), idem.Config{CommitWindow: idem.DefaultCommitWindow(concurrency)})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var n atomic.Int64
	var first, last time.Time
	from, to := int64(records/8), int64(records-records/8)
	c, err := consumer.New(engine, kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) {
		time.Sleep(took) //nolint:forbidigo // the handler's work, at the least CPU
		switch n.Add(1) {
		case from:
			first = time.Now()
		case to:
			last = time.Now()
			memory = inUse()
		case int64(records):
			stop()
		}
		return nil, nil
	}), consumer.Config{Brokers: brokers, Topics: []string{topic}, Group: "bench-" + rand.Text(),
		Records: kafka.Config{Concurrency: concurrency}})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		b.Error(err)
	}
	return float64(to-from) / last.Sub(first).Seconds(), memory
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
