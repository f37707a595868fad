package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The windows together keep to MaxBytes. Each has an equal share, and at most a quarter, so that a partition that
// waits takes no room of others. A poll takes at most a step of a share, and a window is full when it has no
// room for another step. The sum can still reach the bound: when partitions are added, windows are larger than
// their new shares, and a record can be larger than a share. All partitions are paused then.

// fewestShares is the least number of shares of MaxBytes: after a crash the records of a window are delivered
// again.
const fewestShares = 4

// share returns the bound of each window. The caller holds mu.
func (m *member) share() int64 {
	return max(1, m.cfg.MaxBytes/int64(max(fewestShares, len(m.partitions))))
}

// step returns how much of a share one poll takes at most, if a record is not larger.
func step(share int64) int64 { return max(1, share/8) } //nolint:mnd // see full: a smaller part wastes less of a window

// full reports whether a window has no room for another step. The caller holds mu.
func (m *member) full(p *partition) bool {
	share := m.share()
	return p.window.bytes+step(share) > share
}

// drained reports whether a window is at most half full. The caller holds mu.
func (m *member) drained(p *partition) bool { return p.window.bytes <= m.share()/2 }

// roomy reports whether the windows together leave room for half a share. The caller holds mu.
func (m *member) roomy() bool { return m.used+max(1, m.share()/2) <= m.cfg.MaxBytes }

// change changes the window of a partition. The caller holds mu.
func (m *member) change(p *partition, change func(w *window)) {
	m.used -= p.window.bytes
	change(&p.window)
	m.used += p.window.bytes
}

// ready sets the sizes of the next fetches, and returns how many records the next poll may take: as many as
// have room, whichever the client returns of those it has fetched. It is 1 or more, so that a record that is
// larger than the room is read.
func (m *member) ready(client *kgo.Client) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	share := m.share()
	client.UpdateFetchMaxBytes(m.sizes.fetches(m.cfg.MaxBytes, share))
	return max(1, int(min(step(share), m.cfg.MaxBytes-m.used)/m.sizes.largest()))
}

// pause stops the fetches of a partition until its window is half empty and the time has come. What the
// client has fetched of it is dropped and fetched again later. The caller holds mu: pauses and resumptions of
// a partition reach the client in the order of their decisions.
func (m *member) pause(client *kgo.Client, at place, p *partition, notBefore time.Time) {
	p.paused, p.notBefore = true, notBefore
	client.PauseFetchPartitions(map[string][]int32{at.topic: {at.partition}})
}

// pauseAll pauses all partitions if the windows together have reached the bound. The caller holds mu.
func (m *member) pauseAll(client *kgo.Client) {
	if m.used >= m.cfg.MaxBytes {
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
