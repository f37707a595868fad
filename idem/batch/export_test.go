package batch

import "fmt"

// Leftover describes what a stream keeps although none of its items is in progress; "" if there is nothing.
func (st *Stream) Leftover() string {
	st.mu.Lock()
	defer st.mu.Unlock()
	c := &st.claims
	if len(st.lanes)+len(st.keys)+c.wanted+c.needed+c.ahead+c.calls+c.relCalls+len(c.releases)+st.running+
		st.workers-st.idle == 0 && !st.isolating() {
		return ""
	}
	return fmt.Sprintf("%d lanes, %d keys, %d workers, claims %+v", len(st.lanes), len(st.keys),
		st.workers-st.idle, c)
}
