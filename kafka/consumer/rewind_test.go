package consumer

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
)

// fetched returns a fetch of the offsets of a partition from first to last.
func fetched(first, last int64) *kgo.FetchTopicPartition {
	f := &kgo.FetchTopicPartition{Topic: "payments"}
	for offset := first; offset <= last; offset++ {
		f.Records = append(f.Records, &kgo.Record{Topic: "payments", Offset: offset,
			Key: []byte{byte(offset)}, Value: []byte("{}")})
	}
	f.HighWatermark = last + 1
	return f
}

// The brokers lost records while some were in progress, and the client reads on from an earlier offset. The
// window begins anew there: the watermark passes only records that were read again, and it passes all of
// them.
func TestWindowBeginsAnewWhenTheBrokersLostRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		cfg := Config{Group: "ledger", Records: kafka.Config{Key: kafka.RecordKey},
			Logger: slog.New(slog.DiscardHandler)}.withDefaults()
		processor, err := kafka.NewProcessor(engine, kafka.HandlerFunc(func(_ context.Context, r kafka.Record) ([]byte, error) {
			if r.Offset == 5 {
				<-release
			}
			return nil, nil
		}), cfg.Records)
		if err != nil {
			t.Fatal(err)
		}
		m := newMember(&cfg)
		m.stream = processor.Stream(t.Context(), "", m.settled)
		defer m.stream.Close(t.Context())
		m.assigned(t.Context(), nil, map[string][]int32{"payments": {0}})
		watermark := func(want int64) {
			t.Helper()
			synctest.Wait()
			m.mu.Lock()
			defer m.mu.Unlock()
			if mark, _ := m.partitions[place{"payments", 0}].window.watermark(); mark.Offset != want {
				t.Errorf("watermark %d; want %d", mark.Offset, want)
			}
		}
		m.read(t.Context(), nil, fetched(0, 9), nil)
		watermark(5)
		m.read(t.Context(), nil, fetched(3, 12), nil)
		watermark(5)
		close(release)
		watermark(13)
	})
}
