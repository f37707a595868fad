package kafka_test

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// protocols are the ways in which a group assigns its partitions.
var protocols = map[string]func(*consumer.Config){
	"cooperative": func(*consumer.Config) {},
	"eager": func(cfg *consumer.Config) {
		cfg.Options = append(cfg.Options,
			kgo.Balancers(kgo.RangeBalancer()))
	},
	"incremental": func(cfg *consumer.Config) { cfg.Protocol = consumer.Incremental },
}

// Members join and leave in the middle of work. Every record is handled once, and all offsets are committed.
func TestMembersJoinAndLeaveInTheMiddleOfWork(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 6, func(f *fixture) {
				f.handler = func(context.Context, kafka.Record) ([]byte, error) {
					<-time.After(100 * time.Millisecond)
					return nil, nil
				}
				f.produce(0, 200, 0, 1, 2, 3, 4, 5)
				first := f.start(protocol)
				f.until("the first member works", func() bool { n, _ := f.called(); return n > 100 })
				second, third := f.start(protocol), f.start(protocol)
				f.until("the partitions are shared", func() bool {
					return len(first.Stats().Partitions) == 2 && len(second.Stats().Partitions) == 2 &&
						len(third.Stats().Partitions) == 2
				})
				first.mustEnd()
				f.until("the others have its partitions",
					func() bool {
						return len(second.Stats().Partitions) == 3 &&
							len(third.Stats().Partitions) == 3
					})
				second.mustEnd()
				f.until("all offsets are committed", func() bool {
					all := slices.Collect(maps.Values(f.offsets()))
					return len(all) == 6 && slices.Min(all) == 200
				})
				third.mustEnd()
				if !f.calledOnce(1200) {
					_, calls := f.called()
					f.Errorf("%d calls for 1,200 records", calls)
				}
				f.wantOffsets(200, 200, 200, 200, 200, 200)
			})
		})
	}
}

// The offset of a partition is committed when it is revoked. So its new owner receives none of the settled
// records.
func TestRevokedPartitionIsCommitted(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		seldom := func(cfg *consumer.Config) { cfg.CommitInterval = time.Hour }
		f.produce(0, 10, 0, 1)
		first := f.start(seldom)
		f.until("all records are handled", func() bool { return f.calledOnce(20) })
		second := f.start(seldom)
		f.until("the second member has a partition",
			func() bool { return len(second.Stats().Partitions) == 1 })
		moved := second.Stats().Partitions[0].Partition
		if f.offsets()[moved] != 10 || f.offsets()[1-moved] != 0 {
			f.Errorf("offsets %v; want that of partition %d alone", f.offsets(), moved)
		}
		f.produce(10, 1, moved)
		f.until("the new record is handled", func() bool { return f.calledOnce(21) })
		f.until("it is reported", func() bool { return second.report().Records > 0 })
		if r := second.report(); r.Records != 1 {
			f.Errorf("the new owner received %d records; want 1", r.Records)
		}
		first.mustEnd()
		second.mustEnd()
	})
}

// A handler that outlasts the revocation of its partition settles its key. Its offset is not committed by the
// old owner; the new owner waits for the key and does not call its handler.
func TestHandlerThatOutlastsItsPartition(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		release := make(chan struct{})
		f.handler = func(context.Context, kafka.Record) ([]byte, error) {
			<-release
			return nil, nil
		}
		f.produce(0, 1, 0, 1)
		first := f.start()
		f.until("both records are begun", func() bool { n, _ := f.called(); return n == 2 })
		second := f.start(func(cfg *consumer.Config) { cfg.CommitInterval = time.Second })
		f.until("the second member has a partition",
			func() bool { return len(second.Stats().Partitions) == 1 })
		moved := second.Stats().Partitions[0].Partition
		if f.logged("still runs after its partition was revoked", topic+"-"+number(int(moved))+"@0") != 1 {
			f.Error("the handler is not named in the log")
		}
		f.until("the second member waits for the key",
			func() bool { return second.Stats().Partitions[0].Records == 1 })
		<-time.After(time.Minute)
		if f.offsets()[moved] != 0 {
			f.Error("the offset of an unsettled record was committed")
		}
		close(release)
		f.until("the new owner commits", func() bool { return f.offsets()[moved] == 1 })
		first.mustEnd()
		second.mustEnd()
		if !f.calledOnce(2) {
			f.Errorf("calls %v; want one for each record", f.calls)
		}
	})
}

// A member that the broker has removed commits nothing for the partitions that it lost. It joins again, and
// no handler is called again.
func TestLostPartitionsCommitNothing(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		var commits atomic.Int64
		f.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			commits.Add(1)
			return nil, nil, false
		})
		c := f.start(func(cfg *consumer.Config) { cfg.CommitInterval = time.Hour })
		f.produce(0, 100, 0, 1)
		f.until("all records are handled", func() bool { return f.calledOnce(200) })
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true,
			Err: kerr.UnknownMemberID})
		f.until("the partitions are lost", func() bool { return f.logged("partitions lost") == 1 })
		f.until("they are assigned again",
			func() bool { return c.Ready() == nil && len(c.Stats().Partitions) == 2 })
		if n := commits.Load(); n != 0 {
			f.Errorf("%d commits after the loss", n)
		}
		f.until("the records are replayed",
			func() bool { s := c.Stats().Partitions; return s[0].Lag == 0 && s[1].Lag == 0 })
		c.mustEnd()
		if !f.calledOnce(200) {
			f.Error("handlers were called again")
		}
		f.wantOffsets(100, 100)
	})
}

// A commit that is applied late moves the offset back. The consumer commits again, although it has read
// nothing since.
func TestLateCommitIsRepaired(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		late := make(chan struct{})
		held := false
		f.cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
			if !held {
				held = true
				f.cluster.DropControl()
				f.cluster.SleepControl(func() { <-late })
			}
			return nil, nil, false
		})
		c := f.start()
		f.produce(0, 10, 0)
		f.until("the first commit was not answered",
			func() bool { return f.logged("offsets were not committed") == 1 })
		f.produce(10, 10, 0)
		f.until("the second is applied", func() bool { return f.offsets()[0] == 20 })
		close(late)
		f.until("the first is applied late", func() bool { return f.offsets()[0] == 10 })
		f.until("the offset is right again", func() bool { return f.offsets()[0] == 20 })
		c.mustEnd()
		f.wantOffsets(20)
	})
}

// A commit that the broker refuses is logged at a bounded rate and sent again.
func TestRefusedCommitIsSentAgain(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		fault := f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit},
			Err: kerr.OffsetMetadataTooLarge, Count: -1})
		c := f.start(func(cfg *consumer.Config) { cfg.CommitInterval = 100 * time.Millisecond })
		f.produce(0, 10, 0)
		<-time.After(time.Minute)
		if n := f.logged("was not committed"); n < 4 || n > 7 {
			f.Errorf("%d lines in a minute; want one in 10 s", n)
		}
		fault.Remove()
		f.until("the offset is committed", func() bool { return f.offsets()[0] == 10 })
		c.mustEnd()
	})
}

// The last commit waits for a rebalance that is in progress, for a bounded time.
func TestLastCommitWaitsForTheRebalance(t *testing.T) {
	for name, test := range map[string]struct{ refusals, offset int }{"of some time": {3, 10},
		"without an end": {-1, 0}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				c := f.start(func(cfg *consumer.Config) { cfg.CommitInterval = time.Hour })
				f.produce(0, 10, 0)
				f.until("all records are handled", func() bool { return f.calledOnce(10) })
				f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit},
					Err: kerr.RebalanceInProgress, Count: test.refusals})
				began := time.Now()
				c.mustEnd()
				if took := time.Since(began); took > 6*time.Second {
					f.Errorf("Run returned after %v", took)
				}
				f.wantOffsets(int64(test.offset))
				if n := f.logged("the last offsets were not committed"); (n == 1) != (test.offset == 0) {
					f.Errorf("%d lines say that offsets were not committed", n)
				}
			})
		})
	}
}

// A partition that is revoked while Run ends is committed then. The end of Run, which waits for handlers of
// other partitions, does not move the new owner's offset back.
func TestRevocationDuringTheEndOfRun(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				release := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
				f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
					if r.Offset == 9 {
						<-release[r.Partition]
					}
					return nil, nil
				}
				f.produce(0, 10, 0, 1)
				seldom := func(cfg *consumer.Config) {
					cfg.CommitInterval, cfg.DrainTimeout = time.Hour,
						time.Hour
				}
				first := f.start(protocol, seldom)
				f.until("the handlers of all records are called", func() bool { return f.calledOnce(20) })
				first.stop()
				second := f.start(protocol, func(cfg *consumer.Config) { cfg.CommitInterval = time.Second })
				f.until("the second member has a partition",
					func() bool { return len(second.Stats().Partitions) == 1 })
				moved := second.Stats().Partitions[0].Partition
				f.produce(10, 10, moved)
				close(release[moved])
				f.until("the new owner commits", func() bool { return f.offsets()[moved] == 20 })
				close(release[1-moved])
				first.mustEnd()
				if at := f.offsets()[moved]; at != 20 {
					f.Errorf("the offset of partition %d moved back to %d", moved, at)
				}
				f.until("the other partition is committed", func() bool { return f.offsets()[1-moved] == 10 })
				second.mustEnd()
				if !f.calledOnce(30) {
					f.Errorf("calls %v; want one for each record", f.calls)
				}
			})
		})
	}
}

// A process ends within seconds during a rebalance that waits for a member that died. A dynamic member has
// left the group then.
func TestProcessEndsDuringARebalance(t *testing.T) {
	for name, instance := range map[string]string{"dynamic": "", "static": "i-1"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				c := f.start(func(cfg *consumer.Config) { cfg.InstanceID = instance })
				f.until("it has joined", func() bool { return len(c.Stats().Partitions) == 2 })
				network := &outage{dial: f.network.DialContext}
				alive, kill := context.WithCancel(f.Context())
				dead := f.client(kgo.WithContext(alive), kgo.Dialer(network.Dial), kgo.ConsumerGroup(group),
					kgo.ConsumeTopics(topic),
					kgo.SessionTimeout(5*time.Minute), kgo.RebalanceTimeout(5*time.Minute))
				f.until("another member has joined",
					func() bool {
						return len(c.Stats().Partitions) == 1 &&
							f.cluster.GroupInfo(group).State == "Stable"
					})
				network.set(true)
				other := f.start()
				f.until("the group waits for the dead member",
					func() bool { return f.cluster.GroupInfo(group).State == "PreparingRebalance" })
				<-time.After(10 * time.Second)
				begun := time.Now()
				c.mustEnd()
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("the process ended after %v", took)
				}
				if n := len(f.cluster.GroupInfo(group).Members); instance == "" && n != 2 {
					t.Errorf("%d members; want the dead one and the one that joins", n)
				}
				kill()
				dead.Close()
				other.mustEnd()
			})
		})
	}
}
