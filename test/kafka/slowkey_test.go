package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// One Kafka key of 1,000 that takes 1 s a record costs the others less than 5% of their throughput, also
// while the window of its partition is full: it holds one of 32 handlers.
func TestSlowKeyCostsTheOthersLittle(t *testing.T) {
	fast := othersHandled(t, 20*time.Millisecond)
	slow := othersHandled(t, time.Second)
	t.Logf("%d records of the other keys in 10 s; with a slow key %d, %.1f%% less", fast, slow,
		100*(1-float64(slow)/float64(fast)))
	if float64(slow) < 0.95*float64(fast) {
		t.Errorf("%d records of the other keys in 10 s; without a slow key %d", slow, fast)
	}
}

// othersHandled returns how many records of 999 keys are handled in 10 s, at 20 ms each, if the records of
// the first key take another time.
func othersHandled(t *testing.T, first time.Duration) (n int) {
	const partitions, keys, records = 12, 1000, 24_000
	inBubble(t, partitions, func(f *fixture) {
		all := make([]*kgo.Record, records)
		for i := range all {
			key := i % keys
			all[i] = &kgo.Record{Topic: topic, Partition: int32(key % partitions),
				Key: fmt.Append(nil, "k", key), Value: []byte("{}"),
				Headers: []kgo.RecordHeader{{Key: kafka.DefaultKeyHeader, Value: fmt.Append(nil, i)}}}
		}
		f.write(all...)
		var from time.Time
		f.handler = func(ctx context.Context, r kafka.Record) ([]byte, error) {
			took := 20 * time.Millisecond
			if string(r.Key) == "k0" {
				took = first
			}
			select {
			case <-time.After(took):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if from.IsZero() {
				from = time.Now()
			}
			if string(r.Key) != "k0" && time.Since(from) < 10*time.Second {
				n++
			}
			return nil, nil
		}
		c := f.start(func(cfg *consumer.Config) { cfg.MaxBytes = 4 * 500 << 10 })
		f.until("the time is over", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return !from.IsZero() && time.Since(from) >= 10*time.Second
		})
		c.mustEnd()
	})
	return n
}
