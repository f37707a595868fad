package relay_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// Each answer of a broker that an operator can act on names the remedy.
func TestErrorsOfABrokerNameTheRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		key  kmsg.Key
		code *kerr.Error
		want error
		says string
	}{
		"a topic that may not be described": {kmsg.Metadata, kerr.TopicAuthorizationFailed, relay.ErrRejected, "WRITE and DESCRIBE"},
		"a topic that may not be written":   {kmsg.Produce, kerr.TopicAuthorizationFailed, relay.ErrRejected, "WRITE and DESCRIBE"},
		"a topic that does not exist":       {kmsg.Metadata, kerr.UnknownTopicOrPartition, relay.ErrRejected, "create the topic"},
		"an event that is too large":        {kmsg.Produce, kerr.MessageTooLarge, relay.ErrRejected, "max.message.bytes"},
		"an event without a key":            {kmsg.Produce, kerr.InvalidRecord, relay.ErrRejected, "no key"},
		"a producer that may not be idempotent": {kmsg.InitProducerID, kerr.ClusterAuthorizationFailed, relay.ErrUnavailable,
			"IDEMPOTENT_WRITE"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			p := newProducer(t, c, 0)
			var granted atomic.Bool
			c.ControlKey(int16(tc.key), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				if granted.Load() {
					return nil, nil, false
				}
				return refusal(req, tc.code.Code), nil, true
			})
			if err := p.Send(t.Context(), []outbox.Event{event(one, "a", 1, 1)})[0]; !errors.Is(err, tc.want) ||
				!errors.Is(err, tc.code) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want %v, and %q in it", err, tc.want, tc.says)
			}
			granted.Store(true)
			if err := p.Send(t.Context(), []outbox.Event{event(one, "a", 1, 1)})[0]; err != nil {
				t.Errorf("after the cause was removed: %v", err)
			}
		})
	}
}

// refusal is the answer to a request with an error code for each of its topics.
func refusal(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind()
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for _, asked := range req.(*kmsg.MetadataRequest).Topics {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.ErrorCode = asked.Topic, code
			resp.Topics = append(resp.Topics, topic)
		}
	case *kmsg.ProduceResponse:
		for _, asked := range req.(*kmsg.ProduceRequest).Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			for _, p := range asked.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, code
				topic.Partitions = append(topic.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, topic)
		}
	case *kmsg.InitProducerIDResponse:
		resp.ErrorCode = code
	}
	return resp
}

// metadataAge is the minimum time after which the client considers a topic missing, far above the time of
// some requests.
const metadataAge = 5 * time.Second

// A topic is deleted while the producer runs.
func TestDeletedTopicIsRejected(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, 0, kgo.MetadataMinAge(metadataAge))
	if errs := p.Send(t.Context(), []outbox.Event{event(one, "a", 1, 1)}); errs[0] != nil {
		t.Fatal(errs)
	}
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(one)
	req.Topics, req.TopicNames = append(req.Topics, topic), []string{one}
	if _, err := req.RequestWith(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		began := time.Now()
		if errs := p.Send(t.Context(), []outbox.Event{event(one, "a", 2, 1),
			event(many, "a", 3, 1)}); !errors.Is(errs[0], relay.ErrRejected) || errs[1] != nil {
			t.Errorf("%v", errs)
		}
		if took := time.Since(began); n > 0 && took > metadataAge {
			t.Errorf("it took %v", took)
		}
	}
}

// hang makes the cluster answer no produce request until it is released.
func hang(c *kfake.Cluster) (goOn func()) {
	var mu sync.Mutex
	hanging := true
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		if hanging {
			c.KeepControl()
			return nil, errors.New("no answer"), true
		}
		return nil, nil, false
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		hanging = false
	}
}

func TestSilentKafkaIsUnavailable(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, time.Second)
	goOn := hang(c)
	var events []outbox.Event
	for n := range 300 {
		events = append(events, event(one, "", n, 30_000)) // more than ten waves
	}
	began := time.Now()
	for i, err := range p.Send(t.Context(), events) {
		if !errors.Is(err, relay.ErrUnavailable) && !errors.Is(err, relay.ErrHeldBack) || i == 0 &&
			!errors.Is(err, relay.ErrUnavailable) {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if took := time.Since(began); took > 10*time.Second { // it must not wait for each wave
		t.Errorf("it took %v", took)
	}
	goOn()
	events = events[:10]
	for i, err := range p.Send(t.Context(), events) {
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
}

func TestNoKafkaIsUnavailable(t *testing.T) {
	c := newCluster(t)
	p := newProducer(t, c, 300*time.Millisecond)
	c.Close()
	if err := p.Ping(t.Context()); !errors.Is(err, relay.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if errs := p.Send(t.Context(), []outbox.Event{event(one, "a", 1, 1)}); !errors.Is(errs[0],
		relay.ErrUnavailable) {
		t.Errorf("%v", errs)
	}
}
