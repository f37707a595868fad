package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/app"
	appprocess "github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// group delivers the records through package consumer on an in-process Kafka with a virtual network. Its
// members crash, and are drained and replaced.
type group struct {
	*world
	cluster *kfake.Cluster
	network *kfake.VirtualNetwork
	brokers []string
	client  *kgo.Client
	admin   *kadm.Client
	ended   context.Context // done when all records are committed
	end     context.CancelFunc

	gate    gate // held while the group has no members
	gone    bool // it was deleted, so that it begins without offsets; guarded by gate
	active  sync.WaitGroup
	drained context.Context //nolint:containedctx // done when all members are to leave
	drain   context.CancelFunc
}

// deliverToGroup delivers all records.
func (w *world) deliverToGroup(t *testing.T) {
	t.Helper()
	g := &group{world: w, network: new(kfake.VirtualNetwork),
		gate: newGate()}
	g.ended, g.end = context.WithCancel(w.stopping)
	g.drained, g.drain = context.WithCancel(g.ended)
	defer g.end()
	var err error
	g.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092),
		kfake.SeedTopics(int32(w.partitions), topic), kfake.ListenFn(g.network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	defer g.cluster.Close()
	g.brokers = g.cluster.ListenAddrs()
	g.client, err = kgo.NewClient(kgo.SeedBrokers(g.brokers...), kgo.Dialer(g.network.DialContext),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer g.client.Close()
	g.admin = kadm.NewClient(g.client)
	w.describe = g.groupState
	var members sync.WaitGroup
	for i := range w.pollers {
		members.Go(func() { g.member("member " + strconv.Itoa(i)) })
	}
	members.Go(func() { w.produce(g.publish) })
	w.startOperators(g)
	g.wait()
	g.end()
	members.Wait()
	w.running.Wait()
}

// publish implements operated. It writes a record to the topic.
func (g *group) publish(r *record) {
	out := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value,
		Timestamp: time.UnixMilli(r.Timestamp)}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader(h))
	}
	err := g.client.ProduceSync(g.ended, out).FirstErr()
	for tries := 0; err != nil && tries < 100; tries++ {
		// the client may not know the topic yet, or a partition that was added
		g.client.ForceMetadataRefresh()
		_ = sleep(g.ended, 500*time.Millisecond) // the loop ends too
		err = g.client.ProduceSync(g.ended, out).FirstErr()
	}
	if g.ended.Err() == nil && (err != nil || out.Offset != r.Offset) {
		g.violatedf(r.source(), "was produced at offset %d: %v", out.Offset, err)
	}
}

// groupState describes the group.
func (g *group) groupState() string {
	groups, err := g.admin.DescribeGroups(g.stopping, function)
	lag, err2 := g.admin.Lag(g.stopping, function)
	return fmt.Sprintf("the group: %+v %v\nits lag: %+v %v", groups, err, lag, err2)
}

// committed returns the committed offset of a partition, -1 for none.
func (g *group) committed() (offsets []int, err error) {
	answer, err := g.admin.FetchOffsets(g.stopping, function)
	if errors.Is(err, kerr.GroupIDNotFound) {
		err = nil // it was deleted, or has committed nothing
	}
	for i := range g.partitionCount() {
		at := -1
		if o, ok := answer.Lookup(topic, int32(i)); ok {
			at = int(o.At)
		}
		offsets = append(offsets, at)
	}
	return offsets, err
}

// wait waits until all records are committed. All that is committed must be settled.
func (g *group) wait() {
	for sleep(g.stopping, time.Second) == nil {
		offsets, err := g.committed()
		g.mu.Lock()
		left := err != nil || !g.topic.produced || g.operating > 0
		for i, records := range g.topic.partitions {
			if i >= len(offsets) { // it was just added
				left = left || len(records) > 0
				continue
			}
			at := offsets[i]
			left = left || len(records) > max(0, at)
			for _, r := range records[:max(0, min(at, len(records)))] {
				if !g.settledRecord(r) {
					g.violatedLockedf(r.source(), "is committed, and not settled: %s", g.state(r))
				}
			}
		}
		g.mu.Unlock()
		if !left {
			return
		}
	}
}

// member runs processes one after another until all records are committed.
func (g *group) member(name string) {
	for n := 1; g.ended.Err() == nil; n++ {
		g.gate.lock() // while operators change the group, it has no members
		g.active.Add(1)
		all := g.drained
		g.gate.unlock()
		p := g.newProcess(name + "." + strconv.Itoa(n))
		ctx, drain := context.WithCancel(p.alive)
		stop := context.AfterFunc(all, drain)
		if !g.calm() && g.faults.strikes(rebalance, 0.5, p.name) {
			time.AfterFunc(time.Duration(g.dice.between(500, 20_000, "drain "+p.name))*time.Millisecond,
				drain)
		}
		ended := make(chan error, 1)
		g.running.Go(func() { ended <- g.consume(ctx, p, name) })
		select {
		case err := <-ended:
			if err != nil && !p.ended() && !errors.Is(err, idem.ErrOverrun) {
				// requests are held for longer than a shutdown may take
				g.violatedf(p.name, "ended: %v", err)
			}
		case <-p.alive.Done():
		}
		stop()
		drain()
		p.end()
		g.active.Done()
		_ = sleep(g.stopping, time.Duration(g.dice.between(100, 3000, "restart of "+p.name))*time.Millisecond)
	}
}

// consume runs a process as package app/process does.
func (g *group) consume(ctx context.Context, p *process, name string) error {
	options := p.options()
	more := map[string]string{"IDEMSK_KAFKA_BROKERS": g.brokers[0]}
	if g.is("member", "static") {
		more["IDEMSK_KAFKA_INSTANCE_ID"] = name
	}
	vars := p.vars(more)
	cfg := appprocess.ReadConfig(vars, options...)
	base := app.NewBase(vars, cfg.Config, io.Discard, options...)
	parts, err := base.Parts(ctx, p.build)
	if err != nil {
		return err
	}
	defer base.Close()
	cfg.Consumer.Records, cfg.Consumer.Logger = parts.Records, base.Logger
	cfg.Consumer.Options = []kgo.Opt{
		kgo.Dialer(p.dialer(g.network)), kgo.MetadataMaxAge(5 * time.Second), kgo.MetadataMinAge(time.Second),
		// kfake can take a member that died or left in a rebalance for one that has still to join. It then
		// ends the next one a rebalance timeout after the last join, and clients that give up waiting before
		// would join again and again.
		kgo.RequestTimeoutOverhead(5 * time.Minute),
	}
	c, err := consumer.New(parts.Engine, parts.Handler, cfg.Consumer)
	if err != nil {
		return err
	}
	g.log(p.name, "joins the group")
	err = c.Run(ctx)
	g.log(p.name, "has left the group")
	return err
}

// change implements operated. The members leave before.
func (g *group) change(f func(committed []int), also func()) {
	g.gate.lock()
	defer g.gate.unlock()
	g.drain()
	g.active.Wait()
	g.drained, g.drain = context.WithCancel(g.ended)
	offsets, err := g.committed()
	for ; err != nil; offsets, err = g.committed() {
		if sleep(g.ended, time.Second) != nil {
			return
		}
	}
	for i := range offsets {
		offsets[i] = max(0, offsets[i])
	}
	g.mu.Lock()
	f(offsets)
	g.mu.Unlock()
	if also != nil {
		also()
	}
	if g.gone {
		g.gone = false
		return
	}
	want := make(kadm.Offsets)
	for i, at := range offsets {
		if i < g.partitionCount() {
			want.Add(kadm.Offset{Topic: topic, Partition: int32(i), At: int64(at), LeaderEpoch: -1})
		}
	}
	for err = g.commit(want); err != nil; err = g.commit(want) {
		// brokers refuse it while members that died are in the group
		if sleep(g.ended, time.Second) != nil {
			return
		}
	}
}

// deleteOffsets implements operated. It deletes the group.
func (g *group) deleteOffsets() {
	g.gone = true
	for {
		answer, err := g.admin.DeleteGroup(g.ended, function)
		// Brokers refuse it while members that died are in the group.
		gone := err == nil && (answer.Err == nil || errors.Is(answer.Err, kerr.GroupIDNotFound))
		if gone || sleep(g.ended, time.Second) != nil {
			return
		}
	}
}

func (g *group) commit(offsets kadm.Offsets) error {
	answers, err := g.admin.CommitOffsets(g.ended, function, offsets)
	return errors.Join(err, answers.Error())
}

// addPartition implements operated.
func (g *group) addPartition() {
	answers, err := g.admin.CreatePartitions(g.ended, 1, topic)
	if err = errors.Join(err, answers.Error()); err != nil && g.ended.Err() == nil {
		g.violatedf("", "adding a partition: %v", err)
	}
}

// recreateTopic implements operated.
func (g *group) recreateTopic() {
	partitions := int32(g.partitionCount())
	if _, err := g.admin.DeleteTopic(g.ended, topic); err != nil && g.ended.Err() == nil {
		g.violatedf("", "deleting the topic: %v", err)
	}
	g.client.PurgeTopicsFromClient(topic)
	if _, err := g.admin.CreateTopic(g.ended, partitions, 1, nil, topic); err != nil && g.ended.Err() == nil {
		g.violatedf("", "creating the topic: %v", err)
	}
}

// invoke implements operated. A process can't be invoked.
func (g *group) invoke([]byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// dialer returns the dialer of a process, whose connections are closed when it ends.
func (p *process) dialer(network *kfake.VirtualNetwork) func(ctx context.Context, kind,
	addr string) (net.Conn, error) {
	return func(ctx context.Context, kind, addr string) (net.Conn, error) {
		if p.ended() {
			return nil, errEnded
		}
		conn, err := network.DialContext(ctx, kind, addr)
		if err != nil {
			return nil, errors.Join(err)
		}
		context.AfterFunc(p.alive, func() { _ = conn.Close() })
		return conn, nil
	}
}
