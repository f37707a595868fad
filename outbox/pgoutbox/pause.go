package pgoutbox

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// pauses are the topics that are unavailable while Kafka answers: without a leader, or with too few replicas.
// Their events stay in the table, so that those of other topics do not wait. After its pause a topic is tried
// again, by one worker and no other topic at the same time: two topics that are unavailable in one batch could
// not be told apart, and each try may take as long as the sender's timeout.
type pauses struct {
	first, longest time.Duration

	mu     sync.Mutex
	topics map[string]*pause
	trying string // the topic that a worker tries again, "" if none does
}

type pause struct {
	length time.Duration
	end    time.Time
}

func newPauses(longest time.Duration) *pauses {
	return &pauses{first: min(firstPause, longest), longest: longest, topics: make(map[string]*pause)}
}

// begin returns the topics of which a batch must have no event, and the paused one that it tries again, ""
// if none is due. The caller calls end.
func (p *pauses) begin() (without []string, tried string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	without = []string{} // not nil, which is NULL
	byEnd := slices.SortedFunc(maps.Keys(p.topics), func(a, b string) int {
		return cmp.Or(p.topics[a].end.Compare(p.topics[b].end), cmp.Compare(a, b))
	})
	for _, topic := range byEnd {
		if p.trying == "" && !time.Now().Before(p.topics[topic].end) {
			p.trying, tried = topic, topic
			continue
		}
		without = append(without, topic)
	}
	return without, tried
}

// extend begins the pause of a topic, or doubles it if the topic was tried again. It reports whether it did:
// not if the topic is paused and the events were taken before that.
func (p *pauses) extend(topic string, tried bool) (length time.Duration, begun bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.topics[topic]
	switch {
	case of == nil:
		of = &pause{length: p.first}
		p.topics[topic] = of
	case !tried:
		return 0, false
	default:
		of.length = min(2*of.length, p.longest)
	}
	of.end = time.Now().Add(of.length)
	return of.length, true
}

// end ends the try of a topic, and the topic's pause if the topic is available. All others are due then: the
// cause is often the same. If the batch had no event of the topic, because another worker has its shards, the
// topic is tried again soon.
func (p *pauses) end(tried string, available map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tried == "" {
		return
	}
	p.trying = ""
	if !available[tried] {
		if of, now := p.topics[tried], time.Now(); !now.Before(of.end) {
			of.end = now.Add(p.first)
		}
		return
	}
	delete(p.topics, tried)
	for _, of := range p.topics {
		of.end = time.Now()
	}
}
