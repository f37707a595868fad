package kafka_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

const (
	storeLatency = 5 * time.Millisecond
	latencyKeys  = 1000
	latencyRun   = 5 * time.Second // of a rate
)

// BenchmarkLatency measures the time from a record's production to the beginning of its handler and to its
// completion, at 10%, 50% and 90% of the throughput of each host, and at 50% while the store answers after
// 50 ms or 1 s for 500 ms. The store takes 25 keys a request and answers after 5 ms. The handler does nothing.
// Broker, producer and store are in this process. loop is a poll loop that calls the handler and has no store.
// function is the Lambda function behind a loop that passes it what it polls, without a batching window.
func BenchmarkLatency(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.NumCPU()))
	for _, host := range []struct {
		name string
		run  func(l *load)
	}{{"loop", loopHost}, {"process", processHost}, {"function", functionHost}} {
		most := throughput(b, host.run)
		b.Run(host.name+" throughput", func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(most, "records/s")
			b.ReportMetric(0, "ns/op")
		})
		for _, point := range []struct {
			percent int
			spike   time.Duration
		}{{10, 0}, {50, 0}, {90, 0}, {50, 50 * time.Millisecond}, {50, time.Second}} {
			name := fmt.Sprintf("%s at %d%%", host.name, point.percent)
			if point.spike > 0 {
				if host.name == "loop" {
					continue
				}
				name += fmt.Sprintf(", a spike of %v", point.spike)
			}
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					rate := most * float64(point.percent) / 100
					l := newLoad(b, int(rate*latencyRun.Seconds()))
					l.run(host.run, rate, point.spike)
					l.report()
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// throughput returns how many records a second a host handles that were produced before.
func throughput(b *testing.B, host func(*load)) float64 {
	b.Helper()
	const records = 100_000
	l := newLoad(b, records)
	began := time.Now()
	l.run(host, 1e9, 0)
	return records / time.Since(began).Seconds()
}

// load is records that are produced at a rate, and when they were handled.
type load struct {
	b       *testing.B
	brokers []string
	store   *latentStore
	ctx     context.Context
	stop    context.CancelFunc

	times   []times
	settled atomic.Int64
}

type times struct{ due, started, completed time.Time }

func newLoad(b *testing.B, records int) *load {
	b.Helper()
	l := &load{b: b, brokers: newCluster(b).ListenAddrs(), store: slowStore(storeLatency), times: make([]times, records)}
	l.ctx, l.stop = context.WithCancel(b.Context())
	return l
}

// run produces the records at a rate, while a host handles them. The latency of the store is that of the spike
// for half a second.
func (l *load) run(host func(*load), rate float64, spike time.Duration) {
	l.b.Helper()
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		l.produce(rate)
	}()
	if spike > 0 {
		begin := time.AfterFunc(2*time.Second, func() { l.store.latency.Store(int64(spike)) })
		end := time.AfterFunc(2500*time.Millisecond, func() { l.store.latency.Store(int64(storeLatency)) })
		defer begin.Stop()
		defer end.Stop()
	}
	host(l)
	<-produced
}

// produce produces the records when they are due. A producer that is late does not make them due later.
func (l *load) produce(rate float64) {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		l.b.Error(err)
		return
	}
	defer client.Close()
	first := kgo.AbortingFirstErrPromise(client)
	began := time.Now()
	for i := range l.times {
		due := began.Add(time.Duration(float64(i) / rate * 1e9))
		if wait := time.Until(due); wait > time.Millisecond {
			<-time.After(wait)
		}
		l.times[i].due = due
		client.Produce(l.ctx, benchRecord(i, latencyKeys), first.Promise())
	}
	if err := first.Err(); err != nil {
		l.b.Error(err)
	}
}

// handle implements the handler of all hosts.
func (l *load) handle(_ context.Context, r kafka.Record) ([]byte, error) {
	l.started(r.Headers[0].Value)
	return nil, nil
}

func (l *load) started(key []byte) int {
	n, err := strconv.Atoi(string(key))
	if err != nil {
		l.b.Error(err)
	}
	l.times[n].started = time.Now()
	return n
}

func (l *load) completed(n int) {
	l.times[n].completed = time.Now()
	if l.settled.Add(1) == int64(len(l.times)) {
		l.stop()
	}
}

// Observe implements idem.Observer.
func (l *load) Observe(_ context.Context, e idem.Event) {
	if e.Step != observe.End {
		return
	}
	if e.Outcome.Kind != idem.Executed {
		l.b.Errorf("%s: %v, %v", e.Task.Key, e.Outcome.Kind, e.Err)
	}
	n, err := strconv.Atoi(e.Task.Key[strings.LastIndexByte(e.Task.Key, '#')+1:])
	if err != nil {
		l.b.Error(err)
		return
	}
	l.completed(n)
}

// report reports percentiles in milliseconds, without the first second and without the last half one, and the median
// time of the store's requests, which is longer than the latency that is set.
func (l *load) report() {
	began := l.times[0].due
	var toStart, toEnd []time.Duration
	for _, t := range l.times {
		if since := t.due.Sub(began); since > time.Second && since < latencyRun-latencyRun/10 {
			toStart, toEnd = append(toStart, t.started.Sub(t.due)), append(toEnd, t.completed.Sub(t.due))
		}
	}
	for name, all := range map[string][]time.Duration{"start": toStart, "done": toEnd} {
		slices.Sort(all)
		for _, p := range []float64{50, 99, 99.9} {
			at := all[min(len(all)-1, int(float64(len(all))*p/100))]
			l.b.ReportMetric(at.Seconds()*1e3, fmt.Sprintf("p%v-%s-ms", p, name))
		}
	}
	if requests := l.store.requests; len(requests) > 0 {
		slices.Sort(requests)
		l.b.ReportMetric(requests[len(requests)/2].Seconds()*1e3, "p50-request-ms")
	}
}

// loopHost calls the handler for each record of a poll.
func loopHost(l *load) {
	l.poll(func(polled []*kgo.Record) {
		for _, r := range polled {
			l.completed(l.started(r.Headers[0].Value))
		}
	})
}

// poll passes what it polls to a function until the last record is completed.
func (l *load) poll(handle func([]*kgo.Record)) {
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.ConsumeTopics(topic))
	if err != nil {
		l.b.Fatal(err)
	}
	defer client.Close()
	for l.ctx.Err() == nil {
		handle(client.PollRecords(l.ctx, batchSize).Records())
	}
}

// batchSize is how many records an invocation has at most.
const batchSize = 1000

func functionHost(l *load) {
	function, err := msk.New(l.engine(), kafka.HandlerFunc(l.handle), eventsource.Config{Records: kafka.Config{Namespace: "bench"}})
	if err != nil {
		l.b.Fatal(err)
	}
	l.poll(func(polled []*kgo.Record) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := function.Process(ctx, event(polled)); err != nil {
			l.b.Error(err)
		}
	})
}

// event returns the records as an event. Those of a partition are in order.
func event(polled []*kgo.Record) *msk.Event {
	byPartition := make(map[int32][]kafka.Record)
	for _, r := range polled {
		byPartition[r.Partition] = append(byPartition[r.Partition], kafka.Record{Topic: r.Topic,
			Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value,
			Headers: []kafka.Header{{Key: r.Headers[0].Key, Value: r.Headers[0].Value}}})
	}
	e := new(msk.Event)
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		e.Partitions = append(e.Partitions, byPartition[p])
	}
	return e
}

func processHost(l *load) {
	c, err := consumer.New(l.engine(), kafka.HandlerFunc(l.handle), consumer.Config{Brokers: l.brokers,
		Topics: []string{topic}, Group: "bench-" + rand.Text()})
	if err != nil {
		l.b.Fatal(err)
	}
	if err := c.Run(l.ctx); err != nil {
		l.b.Error(err)
	}
}

func (l *load) engine() *idem.Engine {
	engine, err := idem.New(l.store, idem.Config{Observer: l})
	if err != nil {
		l.b.Fatal(err)
	}
	return engine
}

// latentStore is a store in memory that answers after a time. It keeps no completed key, because the garbage
// collector of this process would scan what belongs to another server.
type latentStore struct {
	*memstore.Store

	latency atomic.Int64

	mu       sync.Mutex
	requests []time.Duration // what they took
}

func slowStore(latency time.Duration) *latentStore {
	s := &latentStore{Store: memstore.New(memstore.Config{BatchSize: 25})}
	s.latency.Store(int64(latency))
	return s
}

func (s *latentStore) wait() {
	began := time.Now()
	<-time.After(time.Duration(s.latency.Load()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, time.Since(began))
}

// Claim implements store.Store.
func (s *latentStore) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	s.wait()
	return s.Store.Claim(ctx, reqs)
}

// Settle implements store.Store.
func (s *latentStore) Settle(ctx context.Context, ss []store.Settlement) []error {
	s.wait()
	errs := s.Store.Settle(ctx, ss)
	for i := range ss {
		if ss[i].Op == store.OpComplete && (errs == nil || errs[i] == nil) {
			if err := s.Delete(ctx, ss[i].Key, ss[i].Token); err != nil {
				panic(err)
			}
		}
	}
	return errs
}
