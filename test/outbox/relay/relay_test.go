package relay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The topics of a cluster.
const (
	one  = "one" // one partition
	many = "many"
)

func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	loopback := kfake.ListenFn(func(_, _ string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	})
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, one),
		kfake.SeedTopics(4, many), loopback}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newProducer(t *testing.T, c *kfake.Cluster, timeout time.Duration, options ...kgo.Opt) *relay.Producer {
	t.Helper()
	p, err := relay.New(relay.Config{Options: append(options, kgo.SeedBrokers(c.ListenAddrs()...)),
		Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// newSmallCluster returns a cluster whose topics refuse batches of more than 2,000 bytes.
func newSmallCluster(t *testing.T) *kfake.Cluster {
	t.Helper()
	c := newCluster(t)
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, topic := range []string{one, many} {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
		cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		cfg.Name, cfg.Value = "max.message.bytes", kmsg.StringPtr("2000")
		r.Configs = append(r.Configs, cfg)
		req.Resources = append(req.Resources, r)
	}
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// event returns an event whose ID contains n.
func event(topic, key string, n, size int) outbox.Event {
	e := outbox.Event{ID: fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n), Topic: topic,
		Value: make([]byte, size)}
	if key != "" {
		e.Key = []byte(key)
	}
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(e.Value) // can't be compressed; never fails
	return e
}

// read returns the IDs of n records' events, which are in their first headers, in the order of each
// partition.
func read(t *testing.T, c *kfake.Cluster, n int, topics ...string) (ids []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topics...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(ids) < n {
		for _, r := range client.PollFetches(ctx).Records() {
			if len(r.Headers) == 0 || r.Headers[0].Key != outbox.IDHeader {
				t.Fatalf("%+v has no event-id", r)
			}
			ids = append(ids, string(r.Headers[0].Value))
		}
		if ctx.Err() != nil {
			t.Fatalf("%d records have come, want %d", len(ids), n)
		}
	}
	return ids
}

func TestEventsArriveInOrder(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, 0)
	if err := p.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	var events []outbox.Event
	for n := range 3000 { // more than one wave
		events = append(events, event(one, fmt.Sprint(n%7), n, 1000))
	}
	if errs := p.Send(t.Context(), nil); len(errs) != 0 {
		t.Errorf("%v for nothing", errs)
	}
	for i, err := range p.Send(t.Context(), events) {
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	for i, id := range read(t, c, len(events), one) {
		if id != events[i].ID {
			t.Fatalf("record %d is of event %s", i, id)
		}
	}
}

// An event that is too large is rejected wherever it is. No other event is rejected, and none of its key
// overtakes it.
func TestTooLargeEventDelaysOnlyItsKey(t *testing.T) {
	c := newSmallCluster(t)
	p := newProducer(t, c, 0)
	random := tally.NewSeed(t).Rand("events")
	n := 0
	sent := 0
	for round := range 40 {
		if round%4 == 0 { // a producer that does not know the topics yet
			p = newProducer(t, c, 0)
		}
		var events []outbox.Event
		for range 1 + random.IntN(60) {
			key, size := fmt.Sprint(random.IntN(6)), 20
			if random.IntN(15) == 0 {
				size = 3000
			}
			if random.IntN(5) == 0 {
				key = ""
			}
			n++
			events = append(events, event([]string{one, many}[random.IntN(2)], key, n, size))
		}
		behind := make(map[string]bool)
		for i, err := range p.Send(t.Context(), events) {
			e := events[i]
			of := e.Topic + "/" + string(e.Key)
			switch {
			case e.Key != nil && behind[of]:
				if !errors.Is(err, relay.ErrHeldBack) {
					t.Fatalf("round %d: event %d is behind a rejected one, and the answer is %v", round, i,
						err)
				}
			case len(e.Value) > 2000:
				if !errors.Is(err, relay.ErrRejected) || !errors.Is(err, kerr.MessageTooLarge) {
					t.Fatalf("round %d: event %d has %d bytes, and the answer is %v", round, i, len(e.Value),
						err)
				}
				behind[of] = true
			case err != nil:
				t.Fatalf("round %d: event %d: %v", round, i, err)
			default:
				sent++
			}
		}
	}
	ids := read(t, c, sent, one, many)
	slices.Sort(ids)
	if len(slices.Compact(ids)) != sent {
		t.Errorf("%d records, %d events", sent, len(slices.Compact(ids)))
	}
}

// The client may learn the partitions of a topic while events are waiting, and could then send some before
// others.
func TestFirstEventsOfATopicKeepTheirOrder(t *testing.T) {
	c := newSmallCluster(t)
	var events []outbox.Event
	for n := range 2000 {
		events = append(events, event(one, "a", n, 20))
	}
	c.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		<-time.After(20 * time.Millisecond) // so that it comes during a flush
		return nil, nil, false
	})
	events[0] = event(one, "a", 0, 3000)
	for range 20 {
		for i, err := range newProducer(t, c, 0).Send(t.Context(), events) {
			if err == nil {
				t.Fatalf("event %d was published, which is behind a rejected one", i)
			}
		}
	}
}

// A producer without permission to read a topic's limit finds it out by bisection.
func TestTooLargeEventIsFoundByBisection(t *testing.T) {
	c := newSmallCluster(t)
	c.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := kmsg.NewPtrDescribeConfigsResponse()
		resp.SetVersion(req.GetVersion())
		for _, asked := range req.(*kmsg.DescribeConfigsRequest).Resources {
			r := kmsg.NewDescribeConfigsResponseResource()
			r.ResourceType, r.ResourceName, r.ErrorCode = asked.ResourceType, asked.ResourceName,
				kerr.TopicAuthorizationFailed.Code
			resp.Resources = append(resp.Resources, r)
		}
		return resp, nil, true
	})
	var events []outbox.Event
	for n := range 100 {
		events = append(events, event(one, fmt.Sprint(n), n, 20))
	}
	events[17], events[90] = event(one, "17", 17, 3000), event(one, "90", 90, 3000)
	for i, err := range newProducer(t, c, 0).Send(t.Context(), events) {
		if tooLarge := i == 17 || i == 90; errors.Is(err, relay.ErrRejected) != tooLarge ||
			err == nil == tooLarge {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if ids := read(t, c, 98, one); len(ids) != 98 {
		t.Errorf("%d came", len(ids))
	}
}

// An empty key is a key: Kafka writes its records to one partition, and they stay in order.
func TestEventsWithAnEmptyKeyAreInOrder(t *testing.T) {
	c := newCluster(t)
	first, second, none := event("missing", "", 0, 1), event("missing", "", 1, 1), event("missing", "", 2, 1)
	first.Key, second.Key = []byte{}, []byte{}
	errs := newProducer(t, c, 0, kgo.MetadataMinAge(metadataAge)).Send(t.Context(),
		[]outbox.Event{first, second, none})
	for i, want := range []error{relay.ErrRejected, relay.ErrHeldBack, relay.ErrRejected} {
		if !errors.Is(errs[i], want) {
			t.Errorf("event %d: %v, want %v", i, errs[i], want)
		}
	}
}

func TestMissingTopicDelaysNoOther(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, 0, kgo.MetadataMinAge(metadataAge))
	if errs := p.Send(t.Context(), []outbox.Event{event(one, "a", 0, 1)}); errs[0] != nil {
		t.Fatal(errs)
	}
	began := time.Now()
	errs := p.Send(t.Context(), []outbox.Event{event("missing", "a", 1, 1), event("missing", "a", 2, 1),
		event("missing", "", 3, 1), event(one, "a", 4, 1)})
	for i, want := range []error{relay.ErrRejected, relay.ErrHeldBack, relay.ErrRejected, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("event %d: %v, want %v", i, errs[i], want)
		}
	}
	if !strings.Contains(errs[0].Error(), `"missing"`) || !errors.Is(errs[0], kerr.UnknownTopicOrPartition) {
		t.Errorf("%v", errs[0])
	}
	if took := time.Since(began); took > metadataAge {
		t.Errorf("it took %v", took)
	}
}

// No topic can have such a name. A broker closes the connection on a request with a name that is too long for
// it, so the name must not reach it: each such event is rejected alone, with those behind it held back.
func TestEventOfAnImpossibleTopicDelaysNoOther(t *testing.T) {
	c := newCluster(t)
	impossible := []string{"", ".", "..", "a b", "a/b", "\u00e4", "a\x00", "a\xff",
		strings.Repeat("x", 250), strings.Repeat("x", 40_000), strings.Repeat("x", 1<<20)}
	c.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		for _, asked := range req.(*kmsg.MetadataRequest).Topics {
			if asked.Topic != nil && slices.Contains(impossible, *asked.Topic) {
				return nil, errors.New("the connection is closed"), true
			}
		}
		return nil, nil, false
	})
	p := newProducer(t, c, time.Second)
	for round, known := range []bool{false, true} { // whether the producer knows the topic of the others
		var events []outbox.Event
		for n, topic := range impossible {
			events = append(events, event(topic, "a", 100*round+4*n, 1), event(topic, "a", 100*round+4*n+1, 1),
				event(topic, "", 100*round+4*n+2, 1), event(one, "a", 100*round+4*n+3, 1))
		}
		for i, err := range p.Send(t.Context(), events) {
			want := []error{relay.ErrRejected, relay.ErrHeldBack, relay.ErrRejected, nil}[i%4]
			if !errors.Is(err, want) {
				t.Errorf("topic %.20q, known %v, event %d: %v, want %v", impossible[i/4], known, i%4, err, want)
			}
			if err != nil && len(err.Error()) > 400 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		}
	}
	if ids := read(t, c, 2*len(impossible), one); len(ids) != 2*len(impossible) {
		t.Errorf("%d records", len(ids))
	}
}

func TestNothingIsSentAfterTheContextEndedOrCloseWasCalled(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, 0)
	if errs := p.Send(t.Context(), []outbox.Event{event(one, "a", 1, 1)}); errs[0] != nil {
		t.Fatal(errs)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if errs := p.Send(ended, []outbox.Event{event(one, "a", 2, 1), event(one, "", 3, 1)}); !errors.Is(errs[0],
		relay.ErrUnavailable) || !errors.Is(errs[1], relay.ErrUnavailable) {
		t.Errorf("%v", errs)
	}
	p.Close()
	if errs := p.Send(t.Context(), []outbox.Event{event(one, "a", 4, 1)}); !errors.Is(errs[0],
		relay.ErrUnavailable) {
		t.Errorf("%v", errs)
	}
	if got := read(t, c, 1, one); len(got) != 1 {
		t.Errorf("%v came", got)
	}
}

// Ping ends with its context, also if a broker accepts the connection and is silent.
func TestPingEndsWithItsContext(t *testing.T) {
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := relay.New(relay.Config{Options: []kgo.Opt{kgo.SeedBrokers(silent.Addr().String())}, Timeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := silent.Accept()
		cancel()
		accepted <- conn
	}()
	began := time.Now()
	if err := p.Ping(ctx); !errors.Is(err, context.Canceled) || time.Since(began) > time.Minute {
		t.Errorf("%v after %s; want the end of the context", err, time.Since(began))
	}
	_ = silent.Close()
	if conn := <-accepted; conn != nil {
		_ = conn.Close()
	}
}

func TestConcurrentSends(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, 0)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i, err := range p.Send(t.Context(),
				[]outbox.Event{event(many, fmt.Sprint(g), 2*g, 10), event(many, fmt.Sprint(g), 2*g+1, 10)}) {
				if err != nil {
					t.Errorf("event %d: %v", i, err)
				}
			}
		})
	}
	group.Wait()
	read(t, c, 16, many)
}

func TestConfigurationsAreChecked(t *testing.T) {
	for _, cfg := range []relay.Config{{Timeout: -1}, {Options: []kgo.Opt{kgo.SeedBrokers()}},
		{Options: []kgo.Opt{kgo.DisableIdempotentWrite()}}, {Options: []kgo.Opt{kgo.TransactionalID("a")}}} {
		if _, err := relay.New(cfg); !errors.Is(err, relay.ErrInvalidConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}
