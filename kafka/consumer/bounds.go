package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The windows together keep to MaxRecords and MaxBytes. Each has an equal share, so that a partition that
// waits takes no room of others. A poll takes at most a step of a share, and a window is full when it has no
// room for another step. The sum can still reach the bounds: when partitions are added, windows are larger
// than their new shares, and a record can be larger than a share. All partitions are paused then.

// usage is what windows take.
type usage struct {
	records int
	bytes   int64
}

// share returns the bounds of each window. The caller holds mu.
func (m *member) share() usage {
	n := max(1, len(m.partitions))
	return usage{max(1, min(m.cfg.PartitionRecords, m.cfg.MaxRecords/n)),
		max(1, min(m.cfg.PartitionBytes, m.cfg.MaxBytes/int64(n)))}
}

// step returns how much of a share one poll takes at most, if a record is not larger.
func (u usage) step() usage { return usage{max(1, u.records/8), max(1, u.bytes/8)} } //nolint:mnd // see full: a smaller part wastes less of a window

// full reports whether a window has no room for another step. The caller holds mu.
func (m *member) full(p *partition) bool {
	share := m.share()
	step := share.step()
	return p.window.open()+step.records > share.records || p.window.bytes+step.bytes > share.bytes
}

// drained reports whether a window is at most half full. The caller holds mu.
func (m *member) drained(p *partition) bool {
	share := m.share()
	return p.window.open() <= share.records/2 && p.window.bytes <= share.bytes/2
}

// roomy reports whether the windows together leave room for half a share. The caller holds mu.
func (m *member) roomy() bool {
	share := m.share()
	return m.used.records+max(1, share.records/2) <= m.cfg.MaxRecords &&
		m.used.bytes+max(1, share.bytes/2) <= m.cfg.MaxBytes
}

// change changes the window of a partition. The caller holds mu.
func (m *member) change(p *partition, change func(w *window)) {
	m.used.records -= p.window.open()
	m.used.bytes -= p.window.bytes
	change(&p.window)
	m.used.records += p.window.open()
	m.used.bytes += p.window.bytes
}

// ready sets the sizes of the next fetches, and returns how many records the next poll may take: as many as
// have room, whichever the client returns of those it has fetched. It is 1 or more, so that a record that is
// larger than the room is read.
func (m *member) ready(client *kgo.Client) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	share := m.share()
	client.UpdateFetchMaxBytes(m.sizes.fetches(m.cfg.MaxBytes, share.bytes))
	step := share.step()
	records, bytes := min(step.records, m.cfg.MaxRecords-m.used.records), min(step.bytes,
		m.cfg.MaxBytes-m.used.bytes)
	return max(1, min(records, int(bytes/m.sizes.largest())))
}

// pause stops the fetches of a partition until its window is half empty and the time has come. What the
// client has fetched of it is dropped and fetched again later. The caller holds mu: pauses and resumptions of
// a partition reach the client in the order of their decisions.
func (m *member) pause(client *kgo.Client, at place, p *partition, notBefore time.Time) {
	p.paused, p.notBefore = true, notBefore
	client.PauseFetchPartitions(map[string][]int32{at.topic: {at.partition}})
}

// pauseAll pauses all partitions if the windows together have reached the bounds. The caller holds mu.
func (m *member) pauseAll(client *kgo.Client) {
	if m.used.records >= m.cfg.MaxRecords || m.used.bytes >= m.cfg.MaxBytes {
		m.crowded = true
	}
	if !m.crowded {
		return
	}
	rest := make(map[string][]int32)
	for at, p := range m.partitions {
		if !p.paused {
			p.paused, p.notBefore = true, time.Time{}
			rest[at.topic] = append(rest[at.topic], at.partition)
		}
	}
	if len(rest) > 0 {
		client.PauseFetchPartitions(rest)
	}
}

// resume resumes the partitions that may be fetched again.
func (m *member) resume(client *kgo.Client, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.crowded && !m.roomy() {
		return
	}
	m.crowded = false
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
