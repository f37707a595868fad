package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// share returns the bounds of each window. The caller holds mu.
func (m *member) share() (records int, bytes int64) {
	n := max(1, len(m.partitions))
	return max(1, min(m.cfg.PartitionRecords, m.cfg.MaxRecords/n)), max(1, min(m.cfg.PartitionBytes, m.cfg.MaxBytes/int64(n)))
}

// full reports whether a window has reached its bounds. The caller holds mu.
func (m *member) full(p *partition) bool {
	records, bytes := m.share()
	return p.window.open() >= records || p.window.bytes >= bytes
}

// drained reports whether a window is at most half full. The caller holds mu.
func (m *member) drained(p *partition) bool {
	records, bytes := m.share()
	return p.window.open() <= records/2 && p.window.bytes <= bytes/2
}

// pause stops the fetches of a partition until its window is half empty and the time has come. What the client has fetched of it
// is dropped and fetched again later. The caller holds mu: pauses and resumptions of a partition reach the client in the order of
// their decisions.
func (m *member) pause(client *kgo.Client, at place, p *partition, notBefore time.Time) {
	p.paused, p.notBefore = true, notBefore
	client.PauseFetchPartitions(map[string][]int32{at.topic: {at.partition}})
}

// resume resumes the partitions that may be fetched again.
func (m *member) resume(client *kgo.Client, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	free := make(map[string][]int32)
	for at, p := range m.partitions {
		if p.paused && !now.Before(p.notBefore) && m.drained(p) {
			p.paused = false
			free[at.topic] = append(free[at.topic], at.partition)
		}
	}
	if len(free) > 0 {
		client.ResumeFetchPartitions(free)
	}
}
