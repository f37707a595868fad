package schedule

import "fmt"

// Leftover describes what a stream keeps although none of its items is in progress; "" if there is nothing.
func (st *Stream) Leftover() string {
	d := st.driver
	d.mu.Lock()
	defer d.unlock()
	d.workers.mu.Lock()
	defer d.workers.mu.Unlock()
	m := d.machine
	c := &m.claims
	if len(m.lanes)+m.live+m.queued+len(m.keys)+c.wanted+c.needed+c.ahead+c.requests+c.releasing+len(c.releases)+
		m.calls.running+d.workers.busy == 0 && !m.isolating() {
		return ""
	}
	return fmt.Sprintf("%d lanes, %d live, %d items queued, %d keys, %d workers, claims %+v", len(m.lanes), m.live,
		m.queued, len(m.keys), d.workers.busy, c)
}
