package tally

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/lambda/eventsource"
)

// patience is the maximum time that a source waits for a record or for the consumer.
const patience = 60 * time.Second

// Consumer receives records: an *msk.Consumer, or a function as Lambda runs it.
type Consumer interface {
	Invoke(ctx context.Context, event []byte) ([]byte, error)
}

// Source delivers the records of a topic as the event source does: in order for each partition, and again
// until the consumer succeeds. Sometimes it redelivers a successful batch.
type Source struct {
	testing.TB
	client    *kgo.Client
	topic     string
	batch     int // maximum batch size
	consumer  Consumer
	random    *rand.Rand
	positions map[int32]int64 // by partition, the next offset
	earlier   [][]byte        // batches that succeeded

	Records int // number of records read
	Again   int // number of redeliveries
}

// NewSource returns a source at the start of a topic. It ends with the test. A batch has up to batch records.
func NewSource(t testing.TB, seed Seed, brokers []string, topic string, batch int,
	consumer Consumer) *Source {
	t.Helper()
	return &Source{
		TB: t, client: NewClient(t, brokers, kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())),
		topic: topic, batch: batch, consumer: consumer, random: seed.Rand("source of " + topic),
		positions: make(map[int32]int64),
	}
}

// NewClient returns a client that ends with the test.
func NewClient(t testing.TB, brokers []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Follow delivers new records until ctx ends, and then the rest, as Drain does.
func (s *Source) Follow(ctx context.Context) bool {
	for ctx.Err() == nil {
		if _, good := s.next(ctx); !good {
			return false
		}
	}
	return s.Drain()
}

// Drain delivers the records up to the current end of the topic. It may run outside the test's goroutine, and
// returns false if it failed.
func (s *Source) Drain() bool {
	ends, err := s.ends()
	if err != nil {
		s.failf("asking for the end of topic %s: %v", s.topic, err)
		return false
	}
	for s.behind(ends) {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		n, good := s.next(ctx)
		cancel()
		if good && n == 0 {
			s.failf("no record of topic %s has come for %v: the source is at %v, and the topic ends at %v",
				s.topic, patience, s.positions, ends)
		}
		if !good || n == 0 {
			return false
		}
	}
	return true
}

// WantAll checks that the source has read all records of the topic, at least the given number.
func (s *Source) WantAll(least int) {
	s.Helper()
	ends, err := s.ends()
	if err != nil || s.behind(ends) || s.Records < least {
		s.Errorf("of topic %s, which ends at %v (%v), %d records were read, up to %v; want all of them, and at least %d",
			s.topic, ends, err, s.Records, s.positions, least)
	}
}

// failf fails the test unless it has ended.
func (s *Source) failf(format string, args ...any) {
	if s.Context().Err() == nil {
		s.Errorf(format, args...)
	}
}

func (s *Source) behind(ends map[int32]int64) bool {
	for partition, end := range ends {
		if s.positions[partition] < end {
			return true
		}
	}
	return false
}

// ends returns the end offset of each partition.
func (s *Source) ends() (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	meta := kmsg.NewPtrMetadataRequest()
	meta.Topics = append(meta.Topics, kmsg.MetadataRequestTopic{Topic: &s.topic})
	found, err := meta.RequestWith(ctx, s.client)
	if err != nil {
		return nil, err
	}
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = s.topic
	for _, t := range found.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, err
		}
		for i := range t.Partitions {
			const latest = -1
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = t.Partitions[i].Partition, latest
			topic.Partitions = append(topic.Partitions, p)
		}
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.Topics = append(list.Topics, topic)
	answer, err := list.RequestWith(ctx, s.client)
	if err != nil {
		return nil, err
	}
	ends := make(map[int32]int64)
	for i := range answer.Topics {
		for _, p := range answer.Topics[i].Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, err
			}
			ends[p.Partition] = p.Offset
		}
	}
	if len(ends) == 0 {
		return nil, errors.New("it has no partitions")
	}
	return ends, nil
}

// next delivers the next records, if there are any before ctx ends.
func (s *Source) next(ctx context.Context) (records int, good bool) {
	fetches := s.client.PollRecords(ctx, s.batch)
	for _, e := range fetches.Errors() {
		if ctx.Err() == nil || !errors.Is(e.Err, ctx.Err()) {
			s.failf("reading topic %s after %d records: %v", s.topic, s.Records, e.Err)
			return 0, false
		}
	}
	all := fetches.Records()
	if len(all) == 0 {
		return 0, true
	}
	for _, r := range all {
		s.positions[r.Partition] = r.Offset + 1
	}
	s.Records += len(all)
	event, err := Event(all)
	if err != nil {
		s.failf("%v", err)
		return 0, false
	}
	return len(all), s.hand(event)
}

// hand delivers a batch: once, twice, twice concurrently, or followed by an earlier batch.
func (s *Source) hand(event []byte) bool {
	extra := s.random.IntN(4)
	var good bool
	switch extra {
	case 0:
		good = s.settle(event)
		good = good && s.settle(event)
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
			good = good && s.settle(s.earlier[s.random.IntN(len(s.earlier))])
		}
	default:
		good = s.settle(event)
	}
	if extra < 3 {
		s.Again++
	}
	s.earlier = append(s.earlier, event)
	return good
}

// settle invokes the consumer with a batch until it succeeds.
func (s *Source) settle(event []byte) bool {
	const most = 1000
	for range most {
		ctx, cancel := context.WithTimeout(s.Context(), patience)
		_, err := s.consumer.Invoke(ctx, event)
		cancel()
		var again *eventsource.BatchError
		switch {
		case err == nil:
			return true
		case !errors.As(err, &again) || s.Context().Err() != nil:
			s.failf("%v", err)
			return false
		}
	}
	s.failf("a batch was delivered %d times in vain", most)
	return false
}

// Event returns records as an event of AWS.
func Event(records []*kgo.Record) ([]byte, error) {
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
			"topic": r.Topic, "partition": r.Partition, "offset": r.Offset,
			"timestamp": r.Timestamp.UnixMilli(), "timestampType": "CREATE_TIME",
			"key":   base64.StdEncoding.EncodeToString(r.Key),
			"value": base64.StdEncoding.EncodeToString(r.Value), "headers": headers,
		})
	}
	return json.Marshal(map[string]any{"eventSource": "aws:kafka", "records": partitions})
}
