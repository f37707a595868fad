package pgoutbox

import (
	"sync"
	"time"
)

// unmarked are the rows that PostgreSQL refuses to mark. Each is left out of reads for a delay that doubles, so
// that many of them do not fill the heads of the shards. The later events of a row's key wait for it, unless the
// row was published.
type unmarked struct {
	first, longest time.Duration

	mu   sync.Mutex
	rows map[int64]*unmarkedRow // by seq
}

type unmarkedRow struct {
	of        aggregate
	keyed     bool
	published bool // by this relay, which does not send it again
	delay     time.Duration
	due       time.Time
}

// leftOut is what a read does not return, as arguments of statements.
type leftOut struct {
	paused []string // topics
	seqs   []int64
	topics []string
	keys   [][]byte
}

func (o *leftOut) add(of aggregate) {
	o.topics, o.keys = append(o.topics, of.topic), append(o.keys, []byte(of.key))
}

// note delays a row that was not marked.
func (u *unmarked) note(m *mark) {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.rows[m.seq]
	if r == nil {
		r = &unmarkedRow{delay: u.first / 2} //nolint:mnd // it is doubled below
		u.rows[m.seq] = r
	}
	r.of, r.keyed, r.published = aggregate{m.Topic, string(m.Key)}, m.Key != nil, m.failure == ""
	r.delay = min(2*r.delay, u.longest)
	r.due = time.Now().Add(r.delay)
}

// leaveOut returns what the next read leaves out.
func (u *unmarked) leaveOut() leftOut {
	out := leftOut{seqs: []int64{}, topics: []string{}, keys: [][]byte{}} // not nil, which is NULL
	u.mu.Lock()
	defer u.mu.Unlock()
	for seq, r := range u.rows {
		if !time.Now().Before(r.due) {
			continue
		}
		out.seqs = append(out.seqs, seq)
		if r.keyed && !r.published {
			out.add(r.of)
		}
	}
	return out
}

// wasPublished reports whether this relay has published a row that was not marked.
func (u *unmarked) wasPublished(seq int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := u.rows[seq]
	return r != nil && r.published
}

// forget forgets rows that are marked.
func (u *unmarked) forget(marks []mark) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.rows) == 0 {
		return
	}
	for _, m := range marks {
		delete(u.rows, m.seq)
	}
}
