package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// All records are handled once, all offsets are committed, the member has left the group, and after a restart no handler is called
// again.
func TestCleanShutdownAndRestartCallNoHandlerAgain(t *testing.T) {
	inBubble(t, 3, func(f *fixture) {
		f.produce(0, 100, 0, 1, 2)
		c := f.start()
		f.until("all records are handled", func() bool { return f.calledOnce(300) })
		if err := c.Ready(); err != nil {
			f.Error(err)
		}
		c.mustEnd()
		f.wantOffsets(100, 100, 100)
		if info := f.cluster.GroupInfo(group); len(info.Members) != 0 {
			f.Errorf("%d members are left", len(info.Members))
		}
		if c.Ready() == nil || c.Live() == nil {
			f.Error("a consumer whose Run has ended is ready or live")
		}

		c = f.start()
		f.produce(100, 1, 0)
		f.until("the new record is handled", func() bool { _, calls := f.called(); return calls >= 301 })
		c.mustEnd()
		if !f.calledOnce(301) {
			f.Errorf("handlers were called again: %v", f.calls)
		}
		f.wantOffsets(101, 100, 100)
	})
}

// When the window is full, the partition is paused. It is resumed when the window is half empty, and nothing is skipped. A
// partition with a window of its own goes on.
func TestFullWindowPausesItsPartition(t *testing.T) {
	for name, bound := range map[string]func(*consumer.Config){
		"records":          func(cfg *consumer.Config) { cfg.PartitionRecords = 50 },
		"bytes":            func(cfg *consumer.Config) { cfg.PartitionBytes = 50 << 10 },
		"records in total": func(cfg *consumer.Config) { cfg.MaxRecords = 100 },
		"bytes in total":   func(cfg *consumer.Config) { cfg.MaxBytes = 100 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				release := make(chan struct{})
				f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
					if string(r.Key) == "p0-0" {
						<-release
					}
					return nil, nil
				}
				c := f.start(bound)
				for i := range 30 { // separate fetches: one may exceed the window
					f.produce(20*i, 20, 0, 1)
					<-time.After(time.Second)
				}
				f.until("the other partition is done", func() bool { return f.offsets()[1] == 600 })
				f.until("the lag is known", func() bool { return c.Stats().Partitions[0].Lag == 600 })
				n, _ := f.called()
				if s := c.Stats().Partitions[0]; !s.Paused || s.Records > 80 || n > 600+80 || s.Waiting == 0 {
					f.Errorf("partition 0: %+v, %d records handled; want it paused with about 50 records", s, n)
				}
				if s := c.Stats().Partitions[1]; s.Paused || s.Records != 0 || s.Lag != 0 || s.Bytes != 0 || s.Waiting != 0 {
					f.Errorf("partition 1: %+v; want nothing in progress", s)
				}
				close(release)
				f.until("the paused partition is done", func() bool { return f.offsets()[0] == 600 })
				c.mustEnd()
				if !f.calledOnce(1200) {
					f.Error("records were handled twice or not at all")
				}
			})
		})
	}
}
