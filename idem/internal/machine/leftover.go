package machine

import "fmt"

// Leftover describes what a machine keeps although none of its items is in progress; "" if there is nothing.
func (m *Machine) Leftover() string {
	c := &m.claims
	if len(m.lanes)+m.live+m.queued+len(m.keys)+c.wanted+c.needed+c.ahead+c.requests+c.releasing+len(c.releases)+
		m.calls.running == 0 && !m.isolating() {
		return ""
	}
	return fmt.Sprintf("%d lanes, %d live, %d items queued, %d keys, claims %+v", len(m.lanes), m.live, m.queued,
		len(m.keys), c)
}
