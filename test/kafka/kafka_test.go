//go:build rest

package kafka_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// On Apache Kafka: two members share a topic, one joins and leaves in the middle of work, and the broker is
// silent for longer than the session timeout. Every record is handled once, and every offset is committed.
func TestOnApacheKafka(t *testing.T) {
	server := testkit.Run(t, serverproc.StartScript, serverproc.Kafka)
	for name, protocol := range map[string]func(*consumer.Config){"classic": protocols["cooperative"],
		"incremental": protocols["incremental"]} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{T: t, brokers: []string{server.Addr()},
				store: memstore.New(memstore.Config{BatchSize: 25}), calls: make(map[string]int),
				letters: new(letters)}
			f.recreate(4)
			f.produce(0, 500, 0, 1, 2, 3)
			f.handler = func(context.Context, kafka.Record) ([]byte, error) {
				<-time.After(50 * time.Millisecond)
				return nil, nil
			}
			quick := func(cfg *consumer.Config) {
				cfg.CommitInterval = 100 * time.Millisecond
				if cfg.Protocol == consumer.Classic {
					cfg.Options = append(cfg.Options, kgo.SessionTimeout(6*time.Second),
						kgo.HeartbeatInterval(time.Second))
				}
			}
			first := f.start(protocol, quick)
			f.until("the first member works", func() bool { n, _ := f.called(); return n > 100 })
			second := f.start(protocol, quick)
			f.until("the partitions are shared",
				func() bool {
					return len(first.Stats().Partitions) == 2 &&
						len(second.Stats().Partitions) == 2
				})
			if err := server.Freeze(); err != nil {
				t.Fatal(err)
			}
			<-time.After(10 * time.Second)
			if err := server.Thaw(); err != nil {
				t.Fatal(err)
			}
			f.until("most records are handled", func() bool { n, _ := f.called(); return n > 1500 })
			first.mustEnd()
			f.until("all records are handled", func() bool { n, _ := f.called(); return n == 2000 })
			// The group may have expired both members, who can't commit before they have joined again.
			f.until("all offsets are committed", func() bool {
				return maps.Equal(f.fetchOffsets(4), map[int32]int64{0: 500, 1: 500, 2: 500, 3: 500})
			})
			second.mustEnd()
			third := f.start(protocol, quick)
			f.produce(500, 1, 0)
			f.until("the new record is handled", func() bool { n, _ := f.called(); return n == 2001 })
			third.mustEnd()
			if !f.calledOnce(2001) {
				_, calls := f.called()
				t.Errorf("%d calls for 2,001 records", calls)
			}
		})
	}
}

// recreate creates the topic, and deletes the group and the topic of an earlier test.
func (f *fixture) recreate(partitions int32) {
	f.Helper()
	c := f.client()
	defer c.Close()
	drop := kmsg.NewPtrDeleteTopicsRequest()
	drop.TopicNames = []string{topic}
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = kmsg.StringPtr(topic)
	drop.Topics = append(drop.Topics, one)
	groups := kmsg.NewPtrDeleteGroupsRequest()
	groups.Groups = []string{group}
	create := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	create.Topics = append(create.Topics, t)
	_, _ = drop.RequestWith(f.Context(), c)   // it may not exist
	_, _ = groups.RequestWith(f.Context(), c) // it may not exist
	f.until("the topic is created", func() bool {
		resp, err := create.RequestWith(f.Context(), c)
		return err == nil && resp.Topics[0].ErrorCode == 0
	})
}

// fetchOffsets returns the committed offsets by partition, or none while the brokers do not answer.
func (f *fixture) fetchOffsets(partitions int32) map[int32]int64 {
	f.Helper()
	c := f.client()
	defer c.Close()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g, of := kmsg.NewOffsetFetchRequestGroup(), kmsg.NewOffsetFetchRequestGroupTopic()
	g.Group, of.Topic = group, topic
	for p := range partitions {
		of.Partitions = append(of.Partitions, p)
	}
	g.Topics = append(g.Topics, of)
	req.Groups = append(req.Groups, g)
	offsets := make(map[int32]int64)
	resp, err := req.RequestWith(f.Context(), c)
	if err != nil {
		return offsets
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				offsets[p.Partition] = p.Offset
			}
		}
	}
	return offsets
}
