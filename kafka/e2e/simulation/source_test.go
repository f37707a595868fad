package simulation_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// eventSource delivers the records of the topic to processes until all are committed, as Lambda's event source mapping does: a batch
// whose invocation fails is delivered again, and of a partial answer the records from the first failed one of a partition. A poller
// has some of the partitions and one invocation at a time.
type eventSource struct {
	*world

	mu         sync.Mutex
	committed  []int // by partition
	poller     []int // which has the partition
	generation []int // counts the pollers that had it
	delivered  []int // counts the batches
}

// deliver delivers all records.
func (w *world) deliver() {
	n := len(w.records)
	s := &eventSource{world: w, committed: make([]int, n), poller: make([]int, n), generation: make([]int, n), delivered: make([]int, n)}
	for i := range n {
		s.poller[i] = i % w.pollers
	}
	var pollers sync.WaitGroup
	for i := range w.pollers {
		pollers.Go(func() { s.poll(i) })
	}
	w.running.Go(s.rebalance)
	pollers.Wait()
	w.running.Wait()
}

// done reports whether all records are committed.
func (s *eventSource) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, records := range s.records {
		if s.committed[i] < len(records) {
			return false
		}
	}
	return true
}

// rebalance moves partitions to other pollers, without waiting for their invocations.
func (s *eventSource) rebalance() {
	for round := 0; !s.calm() && !s.done(); round++ {
		name := "round " + strconv.Itoa(round)
		if sleep(s.stopping, time.Duration(s.dice.between(200, 8000, "rebalance "+name))*time.Millisecond) != nil {
			return
		}
		if !s.faults.strikes(rebalance, 0.8, name) {
			continue
		}
		partition := s.dice.between(0, len(s.records)-1, "rebalanced partition "+name)
		to := s.dice.between(0, s.pollers-1, "rebalanced to "+name)
		s.log("partition "+strconv.Itoa(partition), "moves to poller "+strconv.Itoa(to))
		s.mu.Lock()
		s.poller[partition] = to
		s.generation[partition]++
		s.mu.Unlock()
	}
}

// batch is a delivery.
type batch struct {
	name    string
	records []*record
	parts   []part
}

// part is the part of a batch that is of one partition.
type part struct{ partition, from, to, generation int }

// take returns the next batch of a poller, nil if there is none now.
func (s *eventSource) take(poller int) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &batch{name: "batch"}
	now := time.Since(s.begun)
	for i, records := range s.records {
		from := s.committed[i]
		if s.poller[i] != poller || from == len(records) || records[from].at > now {
			continue
		}
		s.delivered[i]++
		name := fmt.Sprintf("%d@%d delivery %d", i, from, s.delivered[i])
		to := min(from+s.dice.between(1, 10, "size "+name), len(records))
		for records[to-1].at > now {
			to--
		}
		b.name += " " + name
		b.parts = append(b.parts, part{i, from, to, s.generation[i]})
		for j := from; j < to; j++ {
			b.records = append(b.records, &records[j])
		}
	}
	if len(b.parts) == 0 {
		return nil
	}
	return b
}

func (b *batch) event() []byte {
	messages := make([]mskevent.Message, 0, len(b.records))
	for _, r := range b.records {
		messages = append(messages, r.Message)
	}
	return mskevent.MSK("arn:aws:kafka:eu-central-1:111122223333:cluster/simulated/1", "broker:9092").Messages(messages...)
}

// commit commits what an answer settles, and reports whether that is anything.
func (s *eventSource) commit(b *batch, out []byte) (some bool) {
	delivered := func(p mskevent.Place) bool {
		for _, r := range b.records {
			if r.PartitionID() == p.Partition && r.Offset == p.Offset {
				return true
			}
		}
		return false
	}
	failed, _, err := mskevent.Failures(out, delivered)
	if err != nil {
		s.violatedf(b.name, "has a bad answer: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range b.parts {
		to := p.from
		for to < p.to && !failed[mskevent.Place{Partition: s.records[p.partition][to].PartitionID(), Offset: int64(to)}] {
			to++
		}
		if s.generation[p.partition] == p.generation {
			some = some || to > s.committed[p.partition]
			s.committed[p.partition] = max(s.committed[p.partition], to)
		}
	}
	return some
}

// poll is one poller.
func (s *eventSource) poll(number int) {
	workers := s.pool("poller " + strconv.Itoa(number))
	others := s.pool("other " + strconv.Itoa(number))
	for s.stopping.Err() == nil && !s.done() {
		b := s.take(number)
		if b == nil {
			_ = sleep(s.stopping, 100*time.Millisecond) // the loop ends too
			continue
		}
		event := b.event()
		if !s.calm() && s.faults.strikes(duplicate, 0.8*s.rate(duplicate), b.name) {
			other, delay := others.next(), time.Duration(s.dice.between(0, 60, "duplicate of "+b.name))*s.lease/20
			s.running.Go(func() {
				if sleep(s.stopping, delay) == nil {
					_, _ = other.invoke(event) // the answer is not waited for
				}
			})
		}
		p := workers.next()
		s.log(p.name, "gets "+b.name)
		out, err := p.invoke(event)
		switch {
		case err != nil:
			s.log(p.name, "answers "+firstOf(err.Error()))
			s.pauseAfter(b)
		case !s.calm() && s.faults.strikes(redelivery, 0.2*s.rate(redelivery), b.name):
		default:
			s.log(p.name, "answers "+string(out))
			if !s.commit(b, out) {
				s.pauseAfter(b)
			}
		}
	}
}

// pauseAfter waits before a batch is delivered again.
func (s *eventSource) pauseAfter(b *batch) {
	_ = sleep(s.stopping, time.Duration(s.dice.between(50, 1500, "retry of "+b.name))*time.Millisecond) // the loop ends too
}

func firstOf(text string) string { return text[:min(len(text), 200)] }

// pool starts processes, one after another.
type pool struct {
	*world
	name    string
	started int
	current *process
}

func (w *world) pool(name string) *pool { return &pool{world: w, name: name} }

// next returns the process of the pool, or a new one if it has ended or is of an earlier deployment.
func (p *pool) next() *process {
	if p.current == nil || p.current.ended() || p.current.deployment != p.deployed() {
		p.started++
		p.current = p.start(p.name + "." + strconv.Itoa(p.started))
	}
	return p.current
}

// isExit reports whether a function's error ends its process.
func isExit(err error) bool {
	var exit messages.InvokeResponse_Error
	return errors.As(err, &exit) && exit.ShouldExit
}
