package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		process()
		return
	}
	// With Go 1.26 and -race, two goroutines of a synctest bubble that receive from timers at the same moment
	// corrupt the race detector's context of the bubble's timers (runtime.(*timer).maybeRunChan). Clients of
	// Kafka have many timers.
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}

const (
	topic = "payments"
	group = "ledger"
)

// fixture is a Kafka in this process with a virtual network and virtual time, a store, and the log of the
// consumers on them.
type fixture struct {
	*testing.T
	cluster *kfake.Cluster // nil if it is a real one
	network *kfake.VirtualNetwork
	brokers []string
	options []kgo.Opt // of clients of the cluster
	store   store.Store
	handler kafka.HandlerFunc // of the consumers; counts the call before
	letters *letters
	stops   []context.CancelFunc // of the consumers

	mu    sync.Mutex
	calls map[string]int // of the handler, by the record's source
	order []string
	lines []string // of the log, from WARN on
}

// inBubble runs a test with a fixture in a bubble of virtual time.
func inBubble(t *testing.T, partitions int32, test func(f *fixture), options ...kfake.Opt) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{T: t, network: new(kfake.VirtualNetwork),
			store: memstore.New(memstore.Config{BatchSize: 25}), calls: make(map[string]int),
			letters: new(letters)}
		var err error
		f.cluster, err = kfake.NewCluster(append([]kfake.Opt{
			kfake.NumBrokers(1), kfake.Ports(9092), kfake.SeedTopics(partitions, topic),
			kfake.ListenFn(f.network.Listen),
		}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		f.brokers, f.options = f.cluster.ListenAddrs(), []kgo.Opt{kgo.Dialer(f.network.DialContext)}
		defer f.cluster.Close()
		defer func() {
			for _, stop := range f.stops { // those of a test that failed
				stop()
			}
			synctest.Wait()
			if t.Failed() {
				<-time.After(time.Hour)
			}
		}()
		test(f)
	})
}

// client returns a client of the cluster that the test must close.
func (f *fixture) client(options ...kgo.Opt) *kgo.Client {
	f.Helper()
	c, err := kgo.NewClient(slices.Concat(
		[]kgo.Opt{kgo.SeedBrokers(f.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, f.options,
		options)...)
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// produce writes n records to each partition, with the keys p<partition>-<number> as idempotency keys and
// Kafka keys.
func (f *fixture) produce(from, n int, partitions ...int32) {
	f.Helper()
	var records []*kgo.Record
	for _, p := range partitions {
		for i := range n {
			records = append(records, payment(p, fmt.Sprintf("p%d-%d", p, from+i)))
		}
	}
	f.write(records...)
}

// payment returns a record whose key is its idempotency key.
func payment(partition int32, key string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(`{"amount":1}`),
		Headers: []kgo.RecordHeader{{Key: kafka.DefaultKeyHeader, Value: []byte(key)}}}
}

func (f *fixture) write(records ...*kgo.Record) {
	f.Helper()
	c := f.client()
	defer c.Close()
	if err := c.ProduceSync(f.Context(), records...).FirstErr(); err != nil {
		f.Fatal(err)
	}
}

// running is a consumer of a test.
type running struct {
	*consumer.Consumer
	f     *fixture
	stop  context.CancelFunc
	ended chan error

	mu     sync.Mutex
	counts kafka.Report
}

// Observe implements idem.Observer.
func (r *running) Observe(_ context.Context, e idem.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Add(&e)
}

// report returns the counts of tries.
func (r *running) report() kafka.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// start starts a consumer; change may change its configuration.
func (f *fixture) start(change ...func(*consumer.Config)) *running {
	f.Helper()
	r := &running{f: f, ended: make(chan error, 1)}
	engine, err := idem.New(f.store, idem.Config{MaxAttempts: 3, Observer: r})
	if err != nil {
		f.Fatal(err)
	}
	cfg := consumer.Config{
		Brokers: f.brokers, Topics: []string{topic}, Group: group, Options: slices.Clone(f.options),
		Records: kafka.Config{DeadLetters: f.letters},
		Logger:  slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	for _, c := range change {
		c(&cfg)
	}
	c, err := consumer.New(engine, kafka.HandlerFunc(f.handle), cfg)
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stops = append(f.stops, cancel)
	r.Consumer, r.stop = c, cancel
	go func() { r.ended <- c.Run(ctx) }()
	return r
}

// end ends the consumer and returns the error of Run.
func (r *running) end() error {
	r.stop()
	return <-r.ended
}

// mustEnd ends the consumer, which must return nil, and is then neither ready nor live.
func (r *running) mustEnd() {
	r.f.Helper()
	if err := r.end(); err != nil {
		r.f.Errorf("Run: %v", err)
	}
	if r.Ready() == nil || r.Live() == nil {
		r.f.Error("a consumer whose Run has ended is ready or live")
	}
}

// fails waits for Run to return an error by itself, which contains the words.
func (r *running) fails(words ...string) {
	r.f.Helper()
	defer r.stop()
	select {
	case err := <-r.ended:
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				r.f.Errorf("Run: %v; want %q", err, w)
			}
		}
	case <-time.After(10 * time.Minute):
		r.f.Errorf("Run continues; want an error with %q", words)
		r.stop()
		<-r.ended
	}
}

func (f *fixture) handle(ctx context.Context, r kafka.Record) ([]byte, error) {
	f.mu.Lock()
	f.calls[r.Source()]++
	f.order = append(f.order, string(r.Key))
	h := f.handler
	f.mu.Unlock()
	if h != nil {
		return h(ctx, r)
	}
	return []byte("done"), nil
}

// Write implements io.Writer for the log.
func (f *fixture) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, string(line))
	return len(line), nil
}

// logged returns how many lines of the log contain all the words.
func (f *fixture) logged(words ...string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, line := range f.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// called returns how many records the handler was called for, and how often in total.
func (f *fixture) called() (records, calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.calls {
		calls += n
	}
	return len(f.calls), calls
}

// calledOnce reports whether the handler was called exactly once for each of n records.
func (f *fixture) calledOnce(n int) bool {
	records, calls := f.called()
	return records == n && calls == n
}

// until waits for a condition, at most 15 minutes of virtual time.
func (f *fixture) until(what string, condition func() bool) {
	f.Helper()
	for began, pause := time.Now(), 10*time.Millisecond; time.Since(
		began) < 15*time.Minute; pause += pause / 100 {
		if condition() {
			return
		}
		<-time.After(pause)
	}
	f.mu.Lock()
	log := strings.Join(f.lines, "")
	f.mu.Unlock()
	f.Fatalf("waited for 15 minutes until %s; offsets %v; calls %v; log:\n%s", what, f.offsets(),
		slices.Sorted(maps.Keys(f.calls)), log)
}

// offsets returns the committed offsets of the topic by partition.
func (f *fixture) offsets() map[int32]int64 {
	offsets := make(map[int32]int64)
	if info := f.cluster.GroupInfo(group); info != nil {
		for p, c := range info.Commits[topic] {
			offsets[p] = c.Offset
		}
	}
	return offsets
}

// wantOffsets compares the committed offsets of the partitions from 0.
func (f *fixture) wantOffsets(want ...int64) {
	f.Helper()
	got := f.offsets()
	for p, w := range want {
		if got[int32(p)] != w {
			f.Errorf("the committed offset of partition %d is %d; want %d", p, got[int32(p)], w)
		}
	}
}

// letters are dead letters.
type letters struct {
	mu  sync.Mutex
	err error
}

func (l *letters) Send(context.Context, kafka.DeadLetter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

var errHandler = errors.New("the handler failed")

func number(n int) string { return strconv.Itoa(n) }
