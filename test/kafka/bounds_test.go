package kafka_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// Of each record of padded, about what counts: the value, the key, a header, and 1 KiB.
const paddedCost = 18 << 10

// padded writes n records of 16 KiB, which compress well, to each partition.
func (f *fixture) padded(n int, partitions int32, codec kgo.CompressionCodec) {
	f.Helper()
	producer := f.client(kgo.ProducerBatchCompression(codec))
	defer producer.Close()
	value := []byte(`{"padding":"` + strings.Repeat("abcdefgh", 2<<10) + `"}`)
	for p := range partitions {
		var records []*kgo.Record
		for i := range n {
			r := payment(p, fmt.Sprintf("p%d-%d", p, i))
			r.Value = value
			records = append(records, r)
		}
		if err := producer.ProduceSync(f.Context(), records...).FirstErr(); err != nil {
			f.Fatal(err)
		}
	}
}

// inWindows returns how many bytes the windows of a consumer take together.
func inWindows(c *running) (bytes int64) {
	for _, p := range c.Stats().Partitions {
		bytes += p.Bytes
	}
	return bytes
}

// The windows of many partitions keep to the bounds together, within one record. Nothing is skipped or
// handled twice, also if no share of the bounds is as large as a record.
func TestWindowsOfAllPartitionsKeepToTheBounds(t *testing.T) {
	const partitions, each = 40, 20
	for name, test := range map[string]struct {
		codec kgo.CompressionCodec
		bytes int64
		least int64 // the windows are used
	}{
		"not compressed":              {codec: kgo.NoCompression(), bytes: 4 << 20, least: 2 << 20},
		"compressed":                  {codec: kgo.SnappyCompression(), bytes: 4 << 20, least: 2 << 20},
		"records larger than a share": {codec: kgo.SnappyCompression(), bytes: 256 << 10, least: 128 << 10},
		"one record at a time":        {codec: kgo.SnappyCompression(), bytes: 1, least: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, partitions, func(f *fixture) {
				release := make(chan struct{})
				f.handler = func(context.Context, kafka.Record) ([]byte, error) { <-release; return nil, nil }
				f.padded(each, partitions, test.codec)
				c := f.start(func(cfg *consumer.Config) { cfg.MaxBytes = test.bytes })
				<-time.After(3 * time.Minute)
				bytes := inWindows(c)
				if bytes > test.bytes+paddedCost || bytes < test.least {
					f.Errorf("the windows take %d bytes; want at most %d and a record, at least %d", bytes,
						test.bytes, test.least)
				}
				close(release)
				f.until("all records are handled",
					func() bool { n, _ := f.called(); return n == partitions*each })
				c.mustEnd()
				if !f.calledOnce(partitions * each) {
					f.Error("records were handled twice")
				}
			})
		})
	}
}

// A process whose windows are full when it gets more partitions keeps to the bound, and reads the new ones
// when there is room.
func TestPartitionsAddedToFullWindowsKeepToTheBound(t *testing.T) {
	const partitions, each, limit = 4, 200, 1 << 20
	inBubble(t, partitions, func(f *fixture) {
		release := make(chan struct{})
		f.handler = func(context.Context, kafka.Record) ([]byte, error) { <-release; return nil, nil }
		first := f.start()
		f.until("the first member is ready",
			func() bool { return len(first.Stats().Partitions) == partitions })
		c := f.start(func(cfg *consumer.Config) { cfg.MaxBytes = limit })
		f.until("the partitions are shared", func() bool { return len(c.Stats().Partitions) == partitions/2 })
		first.mustEnd()
		f.padded(each, partitions, kgo.NoCompression())
		f.until("the second member has all partitions",
			func() bool { return len(c.Stats().Partitions) == partitions })
		<-time.After(3 * time.Minute)
		if bytes := inWindows(c); bytes > limit+paddedCost {
			f.Errorf("the windows take %d bytes; want at most %d and a record", bytes, limit)
		}
		close(release)
		f.until("all records are handled", func() bool { return f.calledOnce(partitions * each) })
		c.mustEnd()
	})
}

// Partitions whose records wait for an operator fill their shares, and no more: another one goes on.
func TestWaitingPartitionsLeaveRoomForAnother(t *testing.T) {
	const partitions, each = 40, 60
	inBubble(t, partitions, func(f *fixture) {
		f.letters.err = errHandler
		f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
			if r.Partition > 0 {
				return nil, idem.Permanent(errHandler) // many temporary errors would look like an outage
			}
			return nil, nil
		}
		f.padded(each, partitions, kgo.SnappyCompression())
		c := f.start(func(cfg *consumer.Config) { cfg.MaxBytes = partitions * 8 * paddedCost })
		f.until("the others wait", func() bool {
			for _, p := range c.Stats().Partitions {
				if p.Partition > 0 && !p.Paused {
					return false
				}
			}
			return c.Ready() == nil
		})
		f.until("all of its records are committed", func() bool { return f.offsets()[0] == each })
		more := make([]*kgo.Record, each)
		for i := range more {
			more[i] = payment(0, fmt.Sprintf("more-%d", i))
		}
		f.write(more...)
		f.until("new ones are committed", func() bool { return f.offsets()[0] == 2*each })
		c.mustEnd()
	})
}
