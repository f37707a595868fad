package relay

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox"
)

// waveBytes is the most that the events of a wave have, unless one alone has more: less than a broker takes for one record
// batch that is configured no further.
const waveBytes = 1_000_000

// Send publishes events, and returns an error for each that it did not publish, nil for the others: ErrRejected, ErrHeldBack
// or ErrUnavailable, wrapped. Of one topic and key they are in order, and are sent in order: after one that is not published
// the others are held back. Those without key are independent of each other.
//
// When ctx ends, the wave under way is brought to its end, within the Timeout, and no other is begun.
func (p *Producer) Send(ctx context.Context, events []outbox.Event) []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &sending{p: p, events: events, errs: make([]error, len(events)), blocked: make(map[aggregate]bool)}
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

// aggregate is what is kept in order.
type aggregate struct{ topic, key string }

// sending is one call of Send. Events go by their indices.
type sending struct {
	p       *Producer
	events  []outbox.Event
	errs    []error
	blocked map[aggregate]bool // an event of it was not published
	stopped error              // why nothing more is sent
}

func (s *sending) fail(i int, err error) {
	s.errs[i] = err
	if e := &s.events[i]; len(e.Key) > 0 {
		s.blocked[aggregate{e.Topic, string(e.Key)}] = true
	}
}

// unblocked returns the events that are not behind one that was not published, and holds the others back.
func (s *sending) unblocked(events []int) []int {
	free := make([]int, 0, len(events))
	for _, i := range events {
		if e := &s.events[i]; s.blocked[aggregate{e.Topic, string(e.Key)}] {
			s.errs[i] = ErrHeldBack
		} else {
			free = append(free, i)
		}
	}
	return free
}

// wave returns how many of events, at least one, are sent at once. What goes to one topic fits into one record batch, unless
// one event alone does not: then no other of its topic goes along. So a broker that refuses a batch for its size refuses one event,
// which nothing has passed by: a client that has several batches under way would not stop at the one that is refused.
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

// send sends events as one wave. A batch that the broker refuses for what is in it is sent in halves, until the event to blame is
// alone: that of several events comes about where the topic's limit could not be known, or has been lowered.
func (s *sending) send(ctx context.Context, events []int) {
	events = s.unblocked(events)
	if s.stopped != nil {
		for _, i := range events {
			s.fail(i, s.stopped)
		}
		return
	}
	if len(events) == 0 {
		return
	}
	refused := make(map[partition][]int)
	why := make(map[partition]error)
	for n, res := range s.p.produce(ctx, s.records(events)) {
		i := events[n]
		switch res.judge() {
		case published:
		case batchRefused:
			delete(s.p.limits, s.events[i].Topic)
			at := partition{s.events[i].Topic, res.partition}
			refused[at], why[at] = append(refused[at], i), res.err
		case topicRefused:
			delete(s.p.limits, s.events[i].Topic)
			s.fail(i, fmt.Errorf("%w: topic %q: %w", ErrRejected, s.events[i].Topic, res.err))
		case unknown:
			s.fail(i, fmt.Errorf("%w: topic %q: %w", ErrUnavailable, s.events[i].Topic, res.err))
		}
	}
	if s.p.client == nil {
		s.stopped = fmt.Errorf("%w: it did not answer within %v", ErrUnavailable, s.p.timeout)
	}
	var former, latter []int
	for at, batch := range refused {
		if len(batch) == 1 {
			i := batch[0]
			s.fail(i, fmt.Errorf("%w: topic %q, about %d bytes: %w", ErrRejected, at.topic, s.events[i].Size(), why[at]))
			continue
		}
		former = append(former, batch[:len(batch)/2]...)
		latter = append(latter, batch[len(batch)/2:]...)
	}
	s.send(ctx, former)
	s.send(ctx, latter)
}

func (s *sending) records(events []int) []*kgo.Record {
	records := make([]*kgo.Record, len(events))
	for n, i := range events {
		records[n] = record(&s.events[i])
	}
	return records
}

// produced is what became of a record.
type produced struct {
	partition int32
	err       error
}

// produce sends records at once, and waits until it is known what became of each. A client that does not know in time is given
// up, as an idempotent one can't forget what it has sent.
func (p *Producer) produce(ctx context.Context, records []*kgo.Record) []produced {
	results := make([]produced, len(records))
	client, err := p.open()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		for n := range results {
			results[n].err = err
		}
		return results
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	var pending sync.WaitGroup
	pending.Add(len(records))
	for n, r := range records {
		client.Produce(context.WithoutCancel(ctx), r, func(r *kgo.Record, err error) {
			results[n] = produced{r.Partition, err}
			pending.Done()
		})
	}
	if err := client.Flush(ctx); err != nil {
		p.drop() // which calls back for each record
	}
	pending.Wait()
	return results
}
