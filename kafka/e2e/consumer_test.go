package e2e_test

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

// A clean shutdown while handlers run: those that run are awaited, the others are not begun, and after the restart each record
// has been handled once.
func TestShutdownInTheMiddleOfWork(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		f.handler = func(context.Context, kafka.Record) ([]byte, error) {
			<-time.After(time.Second)
			return nil, nil
		}
		f.produce(0, 200, 0, 1)
		c := f.start()
		f.until("some records are handled", func() bool { n, _ := f.called(); return n > 40 })
		c.mustEnd()
		if n, _ := f.called(); n > 120 {
			f.Errorf("%d records were handled: it did not stop", n)
		}
		c = f.start()
		f.until("all offsets are committed", func() bool { return f.offsets()[0] == 200 && f.offsets()[1] == 200 })
		c.mustEnd()
		if !f.calledOnce(400) {
			records, calls := f.called()
			f.Errorf("%d calls for %d records; want one for each of 400", calls, records)
		}
	})
}

// A shutdown that cancels a handler costs its record no attempt, however often it happens: no dead letter is sent, and the handler
// gets its time after the last restart.
func TestShutdownCostsNoAttempt(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		f.handler = func(ctx context.Context, _ kafka.Record) ([]byte, error) {
			select {
			case <-time.After(time.Hour):
				return nil, nil
			case <-ctx.Done():
				return nil, errHandler
			}
		}
		f.produce(0, 1, 0)
		const restarts = 4 // more than the attempts
		for i := range restarts {
			c := f.start()
			f.until("the handler was called", func() bool { _, calls := f.called(); return calls == i+1 })
			c.mustEnd()
		}
		c := f.start(func(cfg *consumer.Config) { cfg.DrainTimeout = 2 * time.Hour })
		f.until("the handler was called", func() bool { _, calls := f.called(); return calls == restarts+1 })
		c.mustEnd()
		f.wantOffsets(1)
		if sent := f.letters.all(); len(sent) != 0 {
			f.Errorf("dead letters %q", sent)
		}
	})
}

// A key whose records are slow holds up neither other keys nor other partitions, and its offset is not passed.
func TestSlowKeyHoldsUpNothingElse(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		release := make(chan struct{})
		f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
			if string(r.Key) == "p0-5" {
				<-release
			}
			return nil, nil
		}
		f.produce(0, 500, 0, 1)
		c := f.start(func(cfg *consumer.Config) { cfg.CommitInterval = time.Second })
		f.until("all others are committed", func() bool { return f.offsets()[0] == 5 && f.offsets()[1] == 500 })
		if n, _ := f.called(); n != 1000 {
			f.Errorf("%d records were begun; want all", n)
		}
		close(release)
		f.until("the slow one is committed", func() bool { return f.offsets()[0] == 500 })
		c.mustEnd()
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

// A record that can never succeed becomes a dead letter, and its offset is passed.
func TestPoisonBecomesADeadLetterAndItsOffsetIsPassed(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
			if string(r.Key) == "p0-3" {
				return nil, errHandler
			}
			return nil, nil
		}
		f.produce(0, 10, 0)
		c := f.start()
		f.until("all offsets are committed", func() bool { return f.offsets()[0] == 10 })
		c.mustEnd()
		if sent := f.letters.all(); len(sent) != 1 || sent[0] != topic+"-0@3" {
			f.Errorf("dead letters %q", sent)
		}
		if f.calls[topic+"-0@3"] != 3 {
			f.Errorf("%d attempts; want 3", f.calls[topic+"-0@3"])
		}
	})
}
