package relay

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox"
)

// waveBytes is the maximum size in bytes of a wave with several events. It is less than the default
// max.message.bytes of a broker.
const waveBytes = 1_000_000

// Send publishes events. It returns nil for each published event and ErrRejected, ErrHeldBack or
// ErrUnavailable (wrapped) for the others. Events of one topic and key must be in order and are sent in
// order: if one is not published, the following ones are held back. Events without a key are independent of
// each other.
//
// When ctx ends, Send finishes the current wave, within Config.Timeout, and sends no other.
//
// If Kafka answers but does not confirm the events of some topics in time, for example without a leader or
// with too few replicas, Send goes on with the other topics, once. A topic that never answers so delays the
// others by Config.Timeout.
func (p *Producer) Send(ctx context.Context, events []outbox.Event) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &sending{p: p, events: events, errs: make([]error, len(events)), blocked: make(map[aggregate]bool),
		silent: make(map[string]error)}
	all := make([]int, len(events))
	for i := range all {
		all[i] = i
	}
	for left := s.rejectUnknown(ctx, all); len(left) > 0; {
		n := s.wave(left)
		s.send(ctx, left[:n])
		left = left[n:]
	}
	return s.errs
}

// aggregate identifies events that are kept in order.
type aggregate struct{ topic, key string }

// sending is one call of Send. Its methods refer to events by index.
type sending struct {
	p       *Producer
	events  []outbox.Event
	errs    []error
	blocked map[aggregate]bool // one of its events was not published
	silent  map[string]error   // topics of which nothing more is sent, and why
	stopped error              // the reason for sending no more waves
}

func (s *sending) fail(i int, err error) {
	s.errs[i] = err
	if e := &s.events[i]; e.Key != nil { // an empty key is one: Kafka sends its records to one partition
		s.blocked[aggregate{e.Topic, string(e.Key)}] = true
	}
}

// heldBack reports whether an earlier event of the same topic and key was not published.
func (s *sending) heldBack(i int) bool {
	e := &s.events[i]
	return e.Key != nil && s.blocked[aggregate{e.Topic, string(e.Key)}]
}

// unblocked returns the events that may be sent. It holds back the events behind one that was not published,
// and fails those that can't be sent now.
func (s *sending) unblocked(events []int) []int {
	free := make([]int, 0, len(events))
	for _, i := range events {
		switch why := cmp.Or(s.stopped, s.silent[s.events[i].Topic]); {
		case s.heldBack(i):
			s.errs[i] = ErrHeldBack
		case why != nil:
			s.fail(i, why)
		default:
			free = append(free, i)
		}
	}
	return free
}

// wave returns the number of the first events that are sent together, at least one. The events for one topic
// fit into one record batch. An event that does not fit alone is sent without others of its topic. So the
// broker refuses only one event for its size, and no later event overtakes it: a client with several batches
// in flight would not stop at the refused one.
func (s *sending) wave(events []int) int {
	total, of := 0, make(map[string]int)
	for n, i := range events {
		e := &s.events[i]
		size := e.Size()
		total += size
		of[e.Topic] += size
		if n > 0 && (total > waveBytes || of[e.Topic] > s.p.limits[e.Topic]) {
			return n
		}
	}
	return len(events)
}

type partition struct {
	topic  string
	number int32
}

// send sends events as one wave. If the broker refuses a batch because of its contents, send halves the batch
// until the event at fault is alone. A batch of several events is refused only if the topic's limit was
// unknown or has been lowered.
func (s *sending) send(ctx context.Context, events []int) {
	events = s.unblocked(events)
	if len(events) == 0 {
		return
	}
	refused, open := make(map[partition][]int), make(map[string]bool)
	why := make(map[partition]error)
	results, down := s.p.produce(ctx, s.records(events))
	for n, res := range results {
		i := events[n]
		switch res.judge() {
		case published:
		case batchRefused:
			delete(s.p.limits, s.events[i].Topic)
			at := partition{s.events[i].Topic, res.partition}
			refused[at], why[at] = append(refused[at], i), res.err
		case topicRefused:
			delete(s.p.limits, s.events[i].Topic)
			s.fail(i, fmt.Errorf("%w: topic %q: %w%s", ErrRejected, s.events[i].Topic, res.err, hint(res.err)))
		case unknown:
			open[s.events[i].Topic] = true
			why := cmp.Or(down, res.err)
			s.fail(i, fmt.Errorf("%w: topic %q: %w%s", ErrUnavailable, s.events[i].Topic, why, hint(why)))
		}
	}
	if down != nil {
		s.leaveOut(ctx, open, fmt.Errorf("%w: %w%s", ErrUnavailable, down, hint(down)))
	}
	var former, latter []int
	for at, batch := range refused {
		if len(batch) == 1 {
			i := batch[0]
			s.fail(i, fmt.Errorf("%w: topic %q, about %d bytes: %w%s", ErrRejected, at.topic,
				s.events[i].Size(), why[at], hint(why[at])))
			continue
		}
		former = append(former, batch[:len(batch)/2]...)
		latter = append(latter, batch[len(batch)/2:]...)
	}
	s.send(ctx, former)
	s.send(ctx, latter)
}

// leaveOut stops sending events of the topics of which a wave had open results, if Kafka answers. If it does
// not, or this is not the first time, it stops sending.
func (s *sending) leaveOut(ctx context.Context, topics map[string]bool, why error) {
	if len(s.silent) > 0 || ctx.Err() != nil || s.p.ping(ctx) != nil {
		s.stopped = why
		return
	}
	for topic := range topics {
		s.silent[topic] = why
	}
}

func (s *sending) records(events []int) []*kgo.Record {
	records := make([]*kgo.Record, len(events))
	for n, i := range events {
		records[n] = record(&s.events[i])
	}
	return records
}

// produced is the result of a record.
type produced struct {
	partition int32
	err       error
}

// produce sends records together and waits for all results. It returns an error if no more records can be
// sent. If the client does not know a result in time, or has no producer ID, produce closes the client: an
// idempotent client can't discard a sent record, and keeps the error that it got instead of an ID.
func (p *Producer) produce(ctx context.Context, records []*kgo.Record) ([]produced, error) {
	results := make([]produced, len(records))
	client, err := p.open()
	if err == nil {
		err = ctx.Err()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	if err == nil {
		if _, _, err = client.ProducerID(ctx); err != nil {
			p.drop()
		}
	}
	if err != nil {
		for n := range results {
			results[n].err = err
		}
		return results, err
	}
	var pending sync.WaitGroup
	pending.Add(len(records))
	for n, r := range records {
		client.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
			results[n] = produced{r.Partition, err}
			pending.Done()
		})
	}
	if client.Flush(ctx) != nil {
		p.drop() // completes each record with an error
		err = fmt.Errorf("it did not answer within %v", p.timeout)
	}
	pending.Wait()
	return results, err
}
