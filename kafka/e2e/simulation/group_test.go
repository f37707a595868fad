package simulation_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/host"
	scheduler "github.com/idemsk/idemsk/idem/batch" // batch is one of the event source here
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// group delivers the records through package consumer on an in-process Kafka with a virtual network. Its members crash, and are drained
// and replaced.
type group struct {
	*world
	cluster *kfake.Cluster
	network *kfake.VirtualNetwork
	brokers []string
	ended   context.Context // done when all records are committed
	end     context.CancelFunc
}

// deliverToGroup delivers all records.
func (w *world) deliverToGroup(t *testing.T) {
	t.Helper()
	g := &group{world: w, network: new(kfake.VirtualNetwork)}
	g.ended, g.end = context.WithCancel(w.stopping)
	defer g.end()
	var err error
	g.cluster, err = kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(9092), kfake.SeedTopics(int32(len(w.records)), topic), kfake.ListenFn(g.network.Listen))
	if err != nil {
		t.Fatal(err)
	}
	defer g.cluster.Close()
	g.brokers = g.cluster.ListenAddrs()
	client, err := kgo.NewClient(kgo.SeedBrokers(g.brokers...), kgo.Dialer(g.network.DialContext), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var members sync.WaitGroup
	for i := range w.pollers {
		members.Go(func() { g.member("member " + strconv.Itoa(i)) })
	}
	members.Go(func() { g.produce(client) })
	g.wait(kadm.NewClient(client))
	g.end()
	members.Wait()
	w.running.Wait()
}

// produce writes each record at its time.
func (g *group) produce(client *kgo.Client) {
	var partitions sync.WaitGroup
	for _, records := range g.records {
		partitions.Go(func() {
			for i := range records {
				r := &records[i]
				out := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
				for _, h := range r.Headers {
					out.Headers = append(out.Headers, kgo.RecordHeader(h))
				}
				err := sleep(g.ended, time.Until(g.begun.Add(r.at)))
				if err == nil {
					err = client.ProduceSync(g.ended, out).FirstErr()
				}
				if g.ended.Err() != nil {
					return
				}
				if err != nil || out.Offset != r.Offset {
					g.violatedf(r.source(), "was produced at offset %d: %v", out.Offset, err)
				}
			}
		})
	}
	partitions.Wait()
}

// wait waits until all records are committed.
func (g *group) wait(admin *kadm.Client) {
	for sleep(g.stopping, time.Second) == nil {
		committed, err := admin.FetchOffsets(g.stopping, function)
		left := err != nil
		for i, records := range g.records {
			o, ok := committed.Lookup(topic, int32(i))
			left = left || len(records) > 0 && (!ok || o.At < int64(len(records)))
		}
		if !left {
			return
		}
	}
}

// member runs processes one after another until all records are committed.
func (g *group) member(name string) {
	for n := 1; g.ended.Err() == nil; n++ {
		p := g.newProcess(name + "." + strconv.Itoa(n))
		ctx, drain := context.WithCancel(p.alive)
		stop := context.AfterFunc(g.ended, drain)
		if !g.calm() && g.faults.strikes(rebalance, 0.5, p.name) {
			time.AfterFunc(time.Duration(g.dice.between(500, 20_000, "drain "+p.name))*time.Millisecond, drain)
		}
		ended := make(chan error, 1)
		g.running.Go(func() { ended <- g.consume(ctx, p) })
		select {
		case err := <-ended:
			if err != nil && !p.ended() && !errors.Is(err, scheduler.ErrOverrun) { // requests are held for longer than a shutdown may take
				g.violatedf(p.name, "ended: %v", err)
			}
		case <-p.alive.Done():
		}
		stop()
		drain()
		p.end()
		_ = sleep(g.stopping, time.Duration(g.dice.between(100, 3000, "restart of "+p.name))*time.Millisecond)
	}
}

// consume runs a process as package kafka/app does.
func (g *group) consume(ctx context.Context, p *process) error {
	options := p.options()
	env := maps.Clone(g.environ[p.deployment])
	vars := host.NewVars(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
	cfg := host.ReadConfig(vars, host.Defaults{Name: function, NameVariable: "IDEMSK_GROUP", Order: kafka.ByKey}, options...)
	base := host.NewBase(vars, cfg, io.Discard, options...)
	parts, err := base.Parts(ctx, host.Handler(p.handle))
	if err != nil {
		return err
	}
	defer base.Close()
	c, err := consumer.New(parts.Engine, parts.Handler, consumer.Config{
		Brokers: g.brokers, Topics: []string{topic}, Group: function, Records: parts.Records, Logger: base.Logger,
		Options: []kgo.Opt{kgo.Dialer(p.dialer(g.network))}, SessionTimeout: 6 * time.Second, CommitInterval: time.Second,
	})
	if err != nil {
		return err
	}
	g.log(p.name, "joins the group")
	err = c.Run(ctx)
	g.log(p.name, "has left the group")
	return err
}

// dialer returns the dialer of a process, whose connections are closed when it ends.
func (p *process) dialer(network *kfake.VirtualNetwork) func(ctx context.Context, kind, addr string) (net.Conn, error) {
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
