package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// When the window is full, the partition is paused. It is resumed when the window is half empty, and nothing
// is skipped. A partition with a window of its own goes on.
func TestFullWindowPausesItsPartition(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		release := make(chan struct{})
		f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
			if string(r.Key) == "p0-0" {
				<-release
			}
			return nil, nil
		}
		c := f.start(func(cfg *consumer.Config) { cfg.MaxBytes = 200 << 10 }) // a window of 50 KiB
		for i := range 30 {                                                   // separate fetches: one may exceed the window
			f.produce(20*i, 20, 0, 1)
			<-time.After(time.Second)
		}
		f.until("the other partition is done", func() bool { return f.offsets()[1] == 600 })
		f.until("the lag is known", func() bool { return c.Stats().Partitions[0].Lag == 600 })
		n, _ := f.called()
		if s := c.Stats().Partitions[0]; !s.Paused || s.Records > 80 || n > 600+80 || s.Waiting == 0 {
			f.Errorf("partition 0: %+v, %d records handled; want it paused with about 50 records", s,
				n)
		}
		if s := c.Stats().Partitions[1]; s.Paused || s.Records != 0 || s.Lag != 0 || s.Bytes != 0 ||
			s.Waiting != 0 {
			f.Errorf("partition 1: %+v; want nothing in progress", s)
		}
		close(release)
		f.until("the paused partition is done", func() bool { return f.offsets()[0] == 600 })
		c.mustEnd()
		if !f.calledOnce(1200) {
			f.Error("records were handled twice or not at all")
		}
	})
}
