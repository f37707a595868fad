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

// eventSource delivers the records of the topic to processes until all are committed, as Lambda's event
// source mapping does: a batch whose invocation fails is delivered again, and of a partial answer the records
// from the first failed one of a partition. A poller has some of the partitions and one invocation at a time.
type eventSource struct {
	*world
	extra *pool // the processes that operators invoke

	mu    sync.Mutex // may be held while w.mu is locked
	parts []partitionState
}

// partitionState is what the event source knows of a partition.
type partitionState struct {
	committed  int
	poller     int // which has the partition
	generation int // counts the pollers that had it
	delivered  int // counts the batches
	failures   int // of batches that began at committed
	most       int // records of a batch that was divided, 0 for no limit
}

// deliver delivers all records.
func (w *world) deliver() {
	s := &eventSource{world: w, extra: w.pool("operator")}
	w.describe = func() string { return fmt.Sprintf("the partitions: %+v", s.parts) }
	w.startOperators(s)
	w.running.Go(func() { w.produce(nil) })
	var pollers sync.WaitGroup
	for i := range w.pollers {
		pollers.Go(func() { s.poll(i) })
	}
	w.running.Go(s.rebalance)
	pollers.Wait()
}

// partitions returns the state of each partition, also of those that were added. The caller holds s.mu and
// w.mu.
func (s *eventSource) partitions() []partitionState {
	for len(s.parts) < len(s.topic.partitions) {
		s.parts = append(s.parts, partitionState{poller: len(s.parts) % s.pollers})
	}
	return s.parts
}

// done reports whether all records are committed, and no more will come.
func (s *eventSource) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for i, p := range s.partitions() {
		if p.committed < len(s.topic.partitions[i]) {
			return false
		}
	}
	return s.topic.produced && s.operating == 0
}

// rebalance moves partitions to other pollers, without waiting for their invocations.
func (s *eventSource) rebalance() {
	for round := 0; !s.calm() && !s.done(); round++ {
		name := "round " + strconv.Itoa(round)
		if sleep(s.stopping, time.Duration(
			s.dice.between(200, 8000, "rebalance "+name))*time.Millisecond) != nil {
			return
		}
		if !s.faults.strikes(rebalance, 0.8, name) {
			continue
		}
		partition := s.dice.between(0, s.partitionCount()-1, "rebalanced partition "+name)
		to := s.dice.between(0, s.pollers-1, "rebalanced to "+name)
		s.log("partition "+strconv.Itoa(partition), "moves to poller "+strconv.Itoa(to))
		s.mu.Lock()
		if partition < len(s.parts) {
			s.parts[partition].poller = to
			s.parts[partition].generation++
		}
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
type part struct {
	partition, from, to, generation int
	records                         []*record
}

// take returns the next batch of a poller, nil if there is none now.
func (s *eventSource) take(poller int) *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	b := &batch{name: "batch"}
	for i := range s.partitions() {
		p, records := &s.parts[i], s.topic.partitions[i]
		for p.poller == poller && p.committed < len(records) && s.tooOld(records[p.committed]) {
			s.lose(records[p.committed], "it is older than the event source's maximum")
			p.committed++
		}
		if p.poller != poller || p.committed >= len(records) {
			continue
		}
		p.delivered++
		name := fmt.Sprintf("%d@%d delivery %d", i, p.committed, p.delivered)
		size := s.dice.between(1, 10, "size "+name)
		if p.most > 0 {
			size = min(size, p.most)
		}
		one := part{partition: i, from: p.committed, to: min(p.committed+size, len(records)),
			generation: p.generation}
		one.records = records[one.from:one.to]
		b.name += " " + name
		b.parts, b.records = append(b.parts, one), append(b.records, one.records...)
	}
	if len(b.parts) == 0 {
		return nil
	}
	return b
}

func (s *eventSource) tooOld(r *record) bool {
	return s.is("record age", "1m") && time.Since(s.begun) > r.at+time.Minute
}

func (b *batch) event() []byte {
	messages := make([]mskevent.Message, 0, len(b.records))
	for _, r := range b.records {
		messages = append(messages, r.Message)
	}
	return mskevent.MSK("arn:aws:kafka:eu-central-1:111122223333:cluster/simulated/1",
		"broker:9092").Messages(messages...)
}

// commit commits what an answer settles, and reports whether that is anything. All of it must be settled.
func (s *eventSource) commit(b *batch, out []byte) (some bool) {
	failed, _, err := mskevent.Failures(out, func(p mskevent.Place) bool {
		for _, r := range b.records {
			if r.PartitionID() == p.Partition && r.Offset == p.Offset {
				return true
			}
		}
		return false
	})
	if err != nil {
		s.violatedf(b.name, "has a bad answer: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, one := range b.parts {
		to := one.from
		for to < one.to && !failed[mskevent.Place{Partition: one.records[0].PartitionID(),
			Offset: int64(to)}] {
			if r := one.records[to-one.from]; !s.settledRecord(r) {
				s.violatedLockedf(r.source(), "is committed, and not settled: %s", s.state(r))
			}
			to++
		}
		if p := &s.parts[one.partition]; p.generation == one.generation {
			some = some || to > p.committed
			s.advance(p, one, max(p.committed, to), to < one.to)
		}
	}
	return some
}

// advance commits the records of a partition before an offset, and counts that the others failed.
func (s *eventSource) advance(p *partitionState, one part, to int, failed bool) {
	if to > p.committed {
		p.failures = 0
	}
	p.committed = to
	switch {
	case !failed:
		p.most = 0
		return
	case s.is("bisect", "yes"):
		p.most = max(1, (one.to-one.from)/2)
	}
	if p.failures++; s.is("retries", "unlimited") || p.failures <= s.number("retries") {
		return
	}
	for _, r := range one.records {
		if int(r.Offset) >= p.committed {
			s.lose(r, "the event source's retries are used up")
		}
	}
	p.committed, p.failures, p.most = max(p.committed, one.to), 0, 0
}

// failed counts that a batch failed as a whole.
func (s *eventSource) failed(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, one := range b.parts {
		if p := &s.parts[one.partition]; p.generation == one.generation {
			s.advance(p, one, p.committed, true)
		}
	}
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
			other, delay := others.next(),
				time.Duration(s.dice.between(0, 60, "duplicate of "+b.name))*s.lease/20
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
			s.failed(b)
			s.pauseAfter(b)
		case !s.calm() && s.faults.strikes(redelivery, 0.2+0.2*s.rate(redelivery), b.name):
			s.log(p.name, "answers "+string(out)+", which is lost")
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
	// the loop ends too
	_ = sleep(s.stopping, time.Duration(s.dice.between(50, 1500, "retry of "+b.name))*time.Millisecond)
}

// change implements operated. The event source reads on from where its state is changed to.
func (s *eventSource) change(f func(committed []int), _ func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	committed := make([]int, len(s.partitions()))
	for i, p := range s.parts {
		committed[i] = p.committed
	}
	f(committed)
	for i := range s.partitions() {
		p := partitionState{poller: s.parts[i].poller, generation: s.parts[i].generation + 1,
			delivered: s.parts[i].delivered}
		if i < len(committed) {
			p.committed = committed[i]
		}
		s.parts[i] = p
	}
	s.parts = s.parts[:len(s.topic.partitions)]
}

// deleteOffsets implements operated. An event source that is created again begins at TRIM_HORIZON.
func (s *eventSource) deleteOffsets() {}

// publish implements operated.
func (s *eventSource) publish(*record) {}

// addPartition implements operated.
func (s *eventSource) addPartition() {}

// recreateTopic implements operated.
func (s *eventSource) recreateTopic() {}

// invoke implements operated.
func (s *eventSource) invoke(event []byte) ([]byte, error) { return s.extra.next().invoke(event) }

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
