package kafka_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

func TestUnknownTopicEndsRun(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		f.start(func(cfg *consumer.Config) { cfg.Topics = []string{topic, "paymints"} }).fails(
			`topic "paymints" does not exist: create it, or correct the name`)
	})
}

// Access that is missing at the start, or that is withdrawn later, ends Run.
func TestMissingPermissionEndsRun(t *testing.T) {
	for name, tc := range map[string]struct {
		fault kfake.Fault
		says  string
	}{
		"topic": {kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: topic,
			Err: kerr.TopicAuthorizationFailed, Count: -1}, "allow the principal to describe and read it"},
		"read": {kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.TopicAuthorizationFailed,
			Count: -1}, "payments-0@0: allow the principal to describe and read the topic"},
		"group": {kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed,
			Count: -1}, `group "ledger": allow the principal to read and describe the group`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				f.produce(0, 1, 0)
				f.cluster.Fault(tc.fault)
				f.start().fails("an operator must act", tc.says)
			})
		})
	}
}

func TestGroupOfAnotherProtocolEndsRun(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		other := f.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.Balancers(kgo.RangeBalancer()))
		defer other.Close()
		f.until("the group has a member",
			func() bool { g := f.cluster.GroupInfo(group); return g != nil && g.State == "Stable" })
		f.start().fails("an operator must act",
			"the members of the group use other balancers or another protocol")
	})
}

// A second process with the same instance ID takes the place of the first, which ends.
func TestInstanceIDThatIsUsedTwice(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		static := func(cfg *consumer.Config) { cfg.InstanceID = "i-1" }
		first := f.start(static)
		f.until("the first has joined", func() bool { return first.Ready() == nil })
		second := f.start(static)
		first.fails("another process has the instance ID i-1")
		f.produce(0, 1, 0)
		f.until("the second works", func() bool { return f.calledOnce(1) })
		second.mustEnd()
	})
}

// A static member stays in the group when it ends, so that a restart causes no rebalance, unless it is to
// leave.
func TestStaticMemberStaysInTheGroup(t *testing.T) {
	for leave, members := range map[bool]int{false: 1, true: 0} {
		t.Run(fmt.Sprint(leave), func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				c := f.start(func(cfg *consumer.Config) { cfg.InstanceID, cfg.LeaveGroup = "i-1", leave })
				f.produce(0, 1, 0)
				f.until("it works", func() bool { return f.calledOnce(1) })
				c.mustEnd()
				if n := len(f.cluster.GroupInfo(group).Members); n != members {
					f.Errorf("%d members; want %d", n, members)
				}
				f.wantOffsets(1)
			})
		})
	}
}

// Compaction leaves gaps in the offsets of a topic. They are not waited for, and what is committed is the
// offset after the last settled record before the first that is not settled.
func TestCompactedTopic(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		if err := f.cluster.DeleteTopic(topic); err != nil {
			f.Fatal(err)
		}
		if err := f.cluster.CreateTopic(topic, 1,
			map[string]string{"cleanup.policy": "compact"}); err != nil {
			f.Fatal(err)
		}
		for offset, account := range []string{"a", "x", "a", "slow", "a", "a", "y"} { // 1, 3, 5 and 6 remain
			r := payment(0, "payment-"+number(offset))
			r.Key = []byte(account)
			f.write(r)
		}
		f.cluster.Compact()
		release := make(chan struct{})
		f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
			if string(r.Key) == "slow" {
				<-release
			}
			return nil, nil
		}
		c := f.start()
		f.until("all records but the slow one are settled",
			func() bool { return f.calledOnce(4) && f.offsets()[0] == 2 })
		f.until("the lag is known", func() bool {
			p := c.Stats().Partitions
			return len(p) == 1 &&
				p[0].Lag == 4 && p[0].Records == 3
		})
		close(release)
		f.until("everything is committed", func() bool { return f.offsets()[0] == 7 })
		if p := c.Stats().Partitions; len(p) != 1 || p[0].Lag != 0 {
			f.Errorf("%+v; want no lag", p)
		}
		c.mustEnd()
		c = f.start()
		f.produce(7, 1, 0)
		f.until("the next record is committed", func() bool { return f.offsets()[0] == 8 })
		c.mustEnd()
		if !f.calledOnce(5) {
			f.Errorf("the calls are %v; want one for each of the 5 records that remained", f.calls)
		}
	})
}

// handleAndEnd waits for n handled records, and ends the consumer.
func (r *running) handleAndEnd(n int) {
	r.f.Helper()
	r.f.until(fmt.Sprintf("%d records are handled", n), func() bool { return r.f.calledOnce(n) })
	r.mustEnd()
}

// commit commits an offset of partition 0. epoch is that of the leader that wrote the record before; -1 if it
// is unknown.
func (f *fixture) commit(offset int64, epoch int32) {
	f.Helper()
	admin := f.client()
	defer admin.Close()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Version = group, -1, 8
	of, at := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	of.Topic, at.Offset, at.LeaderEpoch = topic, offset, epoch
	of.TopicID = f.cluster.TopicInfo(topic).TopicID
	of.Partitions = append(of.Partitions, at)
	req.Topics = append(req.Topics, of)
	if _, err := req.RequestWith(f.Context(), admin); err != nil {
		f.Fatal(err)
	}
}

// Records of aborted transactions are not handled. Markers of transactions have offsets, which are committed.
func TestTransactions(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		producer := f.client(kgo.TransactionalID("tx"))
		for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
			if err := producer.BeginTransaction(); err != nil {
				f.Fatal(err)
			}
			if err := producer.ProduceSync(f.Context(),
				payment(0, fmt.Sprint("committed: ", commit == kgo.TryCommit))).FirstErr(); err != nil {
				f.Fatal(err)
			}
			if err := producer.EndTransaction(f.Context(), commit); err != nil {
				f.Fatal(err)
			}
		}
		producer.Close()
		c := f.start()
		f.until("all offsets are committed", func() bool { return f.offsets()[0] == 4 })
		if s := c.Stats().Partitions[0]; s.Lag != 0 {
			f.Errorf("%+v; want no lag", s)
		}
		c.mustEnd()
		if len(f.order) != 1 || f.order[0] != "committed: true" {
			f.Errorf("%q were handled", f.order)
		}
	})
}

// A record that is larger than the limits of a fetch is read. A batch that is larger than the client's limit
// is not: the log says so at a bounded rate, and the partitions that have not reached their ends fail.
func TestLargeRecords(t *testing.T) {
	inBubble(t, 2, func(f *fixture) {
		large := payment(0, "large")
		large.Value = make([]byte, 4<<20)
		producer := f.client(kgo.ProducerBatchMaxBytes(8<<20),
			kgo.ProducerBatchCompression(kgo.NoCompression()))
		if err := producer.ProduceSync(f.Context(), payment(0, "small"), large).FirstErr(); err != nil {
			f.Fatal(err)
		}
		producer.Close()
		c := f.start(func(cfg *consumer.Config) {
			cfg.Options = append(cfg.Options, kgo.FetchMaxBytes(1<<20), kgo.BrokerMaxReadBytes(2<<20))
		})
		<-time.After(time.Minute)
		if n := f.logged("reading failed and is tried again", "limit 2097152"); n < 3 || n > 7 {
			f.Errorf("%d lines in a minute; want one in 10 s", n)
		}
		if n := f.logged("alarm=true", "[payments-0@0]", "limit 2097152"); n != 1 || c.at(0).Failing == 0 ||
			c.at(1).Failing != 0 {
			f.Errorf("%d alarms, want 1; %+v; want the first partition to fail", n, c.Stats().Partitions)
		}
		c.mustEnd()
		f.start().handleAndEnd(2)
		f.wantOffsets(2)
	}, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8388608"}))
}
