package msk_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The batch of BenchmarkConsumer.
const (
	benchRecords    = 1000
	benchPartitions = 6
)

// BenchmarkConsumer takes a batch of fresh records through the consumer on the memory store, each iteration
// with new keys: from the payload that Lambda hands over, and from an event that is decoded already.
func BenchmarkConsumer(b *testing.B) {
	b.Run("payload", func(b *testing.B) {
		benchmark(b, func(ctx context.Context, c *msk.Consumer, payload []byte) func() error {
			return func() error {
				_, err := c.Invoke(ctx, payload)
				return err
			}
		})
	})
	b.Run("event", func(b *testing.B) {
		benchmark(b, func(ctx context.Context, c *msk.Consumer, payload []byte) func() error {
			event := decode(b, payload)
			return func() error {
				_, err := c.Process(ctx, event)
				return err
			}
		})
	})
}

// benchmark measures what prepare returns. The store is a new one for each iteration, so that all keys are
// fresh.
func benchmark(b *testing.B, prepare func(ctx context.Context, c *msk.Consumer,
	payload []byte) func() error) {
	records := make([]record, benchRecords)
	for i := range records {
		records[i] = record{
			place: fmt.Sprintf("payments-%d@%d", i%benchPartitions, i), key: fmt.Sprintf("p-%d", i),
			kafkaKey: fmt.Sprintf("account-%d", i%9),
			value: fmt.Sprintf(`{"paymentId":"p-%d","account":"account-%d","amount":1250,"currency":"EUR"}`,
				i, i%9),
		}
	}
	event := payload(records...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour) // an invocation has a deadline
	defer cancel()
	var before, after runtime.MemStats
	var mallocs uint64
	for b.Loop() {
		b.StopTimer()
		run := prepare(ctx, benchConsumer(b), event)
		runtime.ReadMemStats(&before)
		b.StartTimer()
		err := run()
		b.StopTimer()
		runtime.ReadMemStats(&after)
		mallocs += after.Mallocs - before.Mallocs
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	total := float64(b.N * benchRecords)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/total, "ns/record")
	b.ReportMetric(float64(mallocs)/total, "allocs/record")
}

func benchConsumer(b *testing.B) *msk.Consumer {
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := msk.New(engine, msk.HandlerFunc(func(context.Context, msk.Record) ([]byte, error) { return nil, nil }),
		eventsource.Config{
			Records: kafka.Config{Namespace: "bench", Logger: slog.New(slog.DiscardHandler)},
			Report: func(_ context.Context, r kafka.Report) {
				if r.Executed != benchRecords {
					b.Fatalf("%d records were executed; want %d", r.Executed, benchRecords)
				}
			},
		})
	if err != nil {
		b.Fatal(err)
	}
	return c
}
