package kafka_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/kafka/consumer"
)

// A partition whose committed offset does not exist: its records were deleted while no process ran, or the
// brokers lost them. Reading continues at the first record, the log names what is skipped, the lag is right, and
// the new offset is committed, also if no record follows.
func TestCommittedOffsetThatDoesNotExist(t *testing.T) {
	for name, tc := range map[string]struct {
		committed, first int64 // of 10 records
		from             int64 // where reading continues
		says             []string
	}{
		"deleted":          {5, 8, 8, []string{"deleted before they were read", "from=5 to=7"}},
		"all are deleted":  {5, 10, 10, []string{"deleted before they were read", "from=5 to=9"}},
		"beyond":           {100, 0, 0, []string{"beyond the end", "committed=100 end=10 continuesAt=0"}},
		"beyond, deleted":  {100, 8, 8, []string{"beyond the end", "committed=100 end=10 continuesAt=8"}},
		"the first record": {8, 8, 8, nil},
		"the end":          {10, 3, 10, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				f.produce(0, 10, 0)
				f.commit(tc.committed, -1)
				if err := f.cluster.DeleteRecords(topic, 0, tc.first); err != nil {
					f.Fatal(err)
				}
				c := f.start()
				f.until("everything is handled and committed", func() bool {
					return f.calledOnce(int(10-tc.from)) && f.offsets()[0] == 10 && c.at(0).Lag == 0
				})
				<-time.After(time.Minute)
				want := 0
				if tc.says != nil {
					want = 1
				}
				if n := f.logged(append(tc.says, "alarm=true")...); n != want || f.logged("alarm=true") != want {
					f.Errorf("%d lines name what is skipped, want %d:\n%s", n, want, f.lines)
				}
				f.produce(10, 1, 0)
				f.until("the next record is committed", func() bool { return f.offsets()[0] == 11 })
				c.mustEnd()
				if !f.calledOnce(int(11 - tc.from)) {
					f.Errorf("the calls are %v; want one for each record from %d on", f.calls, tc.from)
				}
			})
		})
	}
}

// With Reset Fail, such a partition ends Run, whose error names the offset. Nothing is committed.
func TestCommittedOffsetThatDoesNotExistEndsRun(t *testing.T) {
	for name, committed := range map[string]int64{"deleted": 5, "beyond": 100} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				f.produce(0, 10, 0)
				f.commit(committed, -1)
				if err := f.cluster.DeleteRecords(topic, 0, 8); err != nil {
					f.Fatal(err)
				}
				f.start(func(cfg *consumer.Config) { cfg.Reset = consumer.Fail }).fails("an operator must act",
					fmt.Sprintf("payments-0@%d: the committed offset does not exist, and Reset is Fail", committed))
				f.wantOffsets(committed)
			})
		})
	}
}

// A committed offset beyond the end, with the epoch of the leader at which it was committed: the brokers say
// where the records were lost, if they know the epoch.
func TestCommittedOffsetBeyondTheEndWithAnEpoch(t *testing.T) {
	for name, tc := range map[string]struct {
		epoch int32
		from  int64
	}{
		"known": {0, 10}, "unknown": {7, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				f.produce(0, 10, 0)
				f.commit(100, tc.epoch)
				c := f.start()
				<-time.After(time.Minute)
				f.produce(10, 1, 0)
				f.until("the next record is committed", func() bool { return f.calledOnce(int(11-tc.from)) && f.offsets()[0] == 11 })
				c.mustEnd()
				if n := f.logged("the committed offset is beyond the end", "committed=100 end=10", "alarm=true"); n != 1 {
					f.Errorf("%d lines name the offset, want 1:\n%s", n, f.lines)
				}
			})
		})
	}
}

// Records that are deleted while a process runs and does not read them are logged, once, before another
// record arrives: behind those that it has read, and in a partition of which it has read none.
func TestRecordsThatAreDeletedWhileTheProcessRuns(t *testing.T) {
	for name, begin := range map[string]func(f *fixture) *running{
		"records were read": func(f *fixture) *running {
			f.produce(0, 5, 0)
			c := f.start()
			f.until("the records are committed", func() bool { return f.offsets()[0] == 5 })
			return c
		},
		"none was read": func(f *fixture) *running {
			c := f.start()
			f.until("there is no lag", func() bool { return c.at(0).Lag == 0 })
			return c
		},
		"none was read, and 0 is committed": func(f *fixture) *running {
			f.commit(0, -1)
			c := f.start()
			f.until("there is no lag", func() bool { return c.at(0).Lag == 0 })
			return c
		},
	} {
		t.Run(name, func(t *testing.T) { testDeletedWhileRunning(t, begin) })
	}
}

func testDeletedWhileRunning(t *testing.T, begin func(f *fixture) *running) {
	inBubble(t, 1, func(f *fixture) {
		c := begin(f)
		first := int(max(0, f.offsets()[0]))
		fault := f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownServerError, Count: -1})
		f.produce(first, 5, 0)
		<-time.After(5 * time.Second)
		if err := f.cluster.DeleteRecords(topic, 0, int64(first+5)); err != nil {
			f.Fatal(err)
		}
		const text = "records were deleted before they were read"
		names := fmt.Sprintf("from=%d to=%d", first, first+4)
		f.until("the deleted records are named", func() bool { return f.logged(text, names, "alarm=true") == 1 })
		f.until("there is no lag", func() bool { return c.at(0).Lag == 0 })
		fault.Remove()
		f.produce(first+5, 1, 0)
		f.until("the next record is committed", func() bool { return f.offsets()[0] == int64(first+6) })
		<-time.After(time.Minute)
		if n := f.logged(text); n != 1 {
			f.Errorf("%d lines name deleted records, want 1:\n%s", n, f.lines)
		}
		c.mustEnd()
	})
}

// at returns the state of a partition of the topic; its lag is -1 if it is not assigned.
func (r *running) at(partition int32) consumer.PartitionStats {
	for _, p := range r.Stats().Partitions {
		if p.Topic == topic && p.Partition == partition {
			return p
		}
	}
	return consumer.PartitionStats{Lag: -1}
}

// A topic that is deleted is waited for, with an alarm and a metric, while other topics are read, also when the
// group has taken its partitions away. If it is created again, its records have the offsets of others: Run
// ends, nothing is committed for the new topic, and the next process reads it from its start.
func TestDeletedTopic(t *testing.T) {
	for name, protocol := range protocols {
		for what, again := range map[string]bool{"stays away": false, "is created again": true} {
			t.Run(name+", "+what, func(t *testing.T) {
				inBubble(t, 1, func(f *fixture) { f.deletedTopic(protocol, again) })
			})
		}
	}
}

func (f *fixture) deletedTopic(protocol func(*consumer.Config), again bool) {
	if err := f.cluster.CreateTopic("refunds", 1, nil); err != nil {
		f.Fatal(err)
	}
	both := func(cfg *consumer.Config) {
		cfg.Topics = []string{topic, "refunds"}
		// kfake answers a fetch session with a deleted topic at once, so that virtual time stands
		cfg.Options = append(cfg.Options, kgo.DisableFetchSessions())
	}
	c := f.start(protocol, both)
	f.produce(0, 5, 0)
	f.until("the records are committed", func() bool { return f.calledOnce(5) && f.offsets()[0] == 5 })
	if err := f.cluster.DeleteTopic(topic); err != nil {
		f.Fatal(err)
	}
	alarms := func() int { return f.logged("the topic was deleted", "payments", "alarm=true") }
	failing := func() bool {
		s := c.Stats()
		return c.at(0).Failing > 0 || len(s.Missing) == 1 && s.Missing[0].Missing > 0
	}
	f.until("there is an alarm", func() bool { return alarms() == 1 && failing() })
	other := f.start(protocol, func(cfg *consumer.Config) { cfg.Topics = []string{"refunds"} }) // the group rebalances
	<-time.After(time.Minute)
	other.mustEnd()
	refund := payment(0, "refund")
	refund.Topic = "refunds"
	f.write(refund)
	f.until("the other topic is read", func() bool { return f.calledOnce(6) })
	before := alarms()
	<-time.After(10 * time.Minute)
	if n := alarms() - before; n < 9 || n > 11 || !failing() || c.Live() != nil {
		f.Errorf("%d alarms in 10 minutes, want one each minute; %+v", n, c.Stats())
	}
	if !again {
		c.mustEnd()
		return
	}
	if err := f.cluster.CreateTopic(topic, 1, nil); err != nil {
		f.Fatal(err)
	}
	f.produce(100, 9, 0)
	c.fails("an operator must act", `the topic "payments" was deleted and created again`)
	if at, known := f.offsets()[0]; known {
		f.Errorf("the offset %d of the new topic is committed", at)
	}
	c = f.start(protocol, both)
	f.until("the new records are committed", func() bool { return f.handledKeys(15) && f.offsets()[0] == 9 })
	if len(c.Stats().Missing) > 0 {
		f.Errorf("%+v; want no topic to be missing", c.Stats())
	}
	c.mustEnd()
}

// handledKeys reports whether the handler was called for n keys.
func (f *fixture) handledKeys(n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	keys := slices.Clone(f.order)
	slices.Sort(keys)
	return len(slices.Compact(keys)) == n
}
