package e2e_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/lambda/msk"
)

// batchSize is the most records that a consumer is handed at once.
const batchSize = 50

// source hands the records of a topic to a consumer as the event source does: the records of a partition in order, again until
// the consumer is content, and now and then a batch that it has been content with.
type source struct {
	*testing.T
	client   *kgo.Client
	consumer *msk.Consumer
	earlier  [][]byte // batches that the consumer was content with
	records  int
	again    int // deliveries of batches that had been delivered
}

func newSource(t *testing.T, brokers []string, topic string, consumer *msk.Consumer) *source {
	t.Helper()
	client := newClient(t, brokers, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	return &source{T: t, client: client, consumer: consumer}
}

func newClient(t *testing.T, brokers []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func createTopic(t *testing.T, brokers []string, name string, partitions int32) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), newClient(t, brokers))
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("creating topic %s: %v, %+v", name, err, resp)
	}
}

// deliver delivers until enough says so. It may run beside the test's own goroutine, and reports false if it failed.
func (s *source) deliver(enough func() bool) bool {
	for !enough() {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		fetches := s.client.PollRecords(ctx, batchSize)
		err := errors.Join(fetches.Err(), ctx.Err())
		cancel()
		if err != nil {
			s.Errorf("after %d records: %v", s.records, err)
			return false
		}
		s.records += fetches.NumRecords()
		if !s.hand(s.event(fetches.Records())) {
			return false
		}
	}
	return true
}

// hand hands a batch over: once, twice, twice at once, or with one of those before after it.
func (s *source) hand(event []byte) bool {
	extra := rand.IntN(4)
	var good bool
	switch extra {
	case 0:
		good = s.settle(event)
		good = s.settle(event) && good
	case 1:
		var both [2]bool
		var group sync.WaitGroup
		for i := range both {
			group.Go(func() { both[i] = s.settle(event) })
		}
		group.Wait()
		good = both[0] && both[1]
	case 2:
		good = s.settle(event)
		if len(s.earlier) > 0 {
			good = good && s.settle(s.earlier[rand.IntN(len(s.earlier))])
		}
	default:
		good = s.settle(event)
	}
	if extra < 3 {
		s.again++
	}
	s.earlier = append(s.earlier, event)
	return good
}

// settle invokes the consumer with a batch until it is content.
func (s *source) settle(event []byte) bool {
	const most = 1000
	for range most {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		_, err := s.consumer.Invoke(ctx, event)
		cancel()
		var again *msk.BatchError
		switch {
		case err == nil:
			return true
		case !errors.As(err, &again):
			s.Error(err)
			return false
		}
	}
	s.Errorf("a batch was delivered %d times in vain", most)
	return false
}

// event is records as AWS hands them over.
func (s *source) event(records []*kgo.Record) []byte {
	partitions := make(map[string][]map[string]any)
	for _, r := range records {
		headers := []map[string][]int{}
		for _, h := range r.Headers {
			value := make([]int, len(h.Value)) // numbers: bytes would become base64
			for i, b := range h.Value {
				value[i] = int(b)
			}
			headers = append(headers, map[string][]int{h.Key: value})
		}
		id := fmt.Sprint(r.Topic, "-", r.Partition)
		partitions[id] = append(partitions[id], map[string]any{
			"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "timestamp": r.Timestamp.UnixMilli(), "timestampType": "CREATE_TIME",
			"key": base64.StdEncoding.EncodeToString(r.Key), "value": base64.StdEncoding.EncodeToString(r.Value), "headers": headers,
		})
	}
	event, err := json.Marshal(map[string]any{"eventSource": "aws:kafka", "records": partitions})
	if err != nil {
		s.Error(err)
	}
	return event
}
