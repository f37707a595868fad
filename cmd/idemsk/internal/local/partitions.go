package local

import (
	"cmp"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// partitionStates are the states of the partitions of a topic that a consumer group reads. They are safe for
// concurrent use.
type partitionStates struct {
	mu     sync.Mutex
	states []esm.PartitionState // by number
}

// open sets the partitions, and where each begins: at the offset that the group has committed, else at the
// first one.
func (s *partitionStates) open(starts map[int32]kadm.ListedOffset, commits map[int32]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for number, start := range starts {
		begin := start.Offset
		if c, ok := commits[number]; ok {
			begin = max(begin, c)
		}
		s.states = append(s.states, esm.PartitionState{Partition: number, Poller: esm.NoPoller, Begin: begin,
			Committed: begin, End: begin})
	}
	slices.SortFunc(s.states,
		func(a, b esm.PartitionState) int { return cmp.Compare(a.Partition, b.Partition) })
}

// update sets the offsets, and returns how many more are committed. It is negative if a late commit moved an
// offset back.
func (s *partitionStates) update(commits map[int32]int64, ends map[int32]kadm.ListedOffset) (done int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.states {
		p := &s.states[i]
		if c, ok := commits[p.Partition]; ok && c >= p.Begin {
			done += int(c - p.Committed)
			p.Committed = c
		}
		if e, ok := ends[p.Partition]; ok {
			p.End = e.Offset
		}
	}
	return done
}

func (s *partitionStates) all() []esm.PartitionState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.states)
}

func (s *partitionStates) lag() int64 { lag, _ := sums(s.all()); return lag }

// done returns the number of offsets that were committed since the run began.
func (s *partitionStates) done() (n int) {
	for _, p := range s.all() {
		n += int(p.Committed - p.Begin)
	}
	return n
}
