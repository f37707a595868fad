package machine

import (
	"container/heap"
	"time"
)

// alarm is something that a machine does at a time. The zero value is not set.
type alarm struct {
	at    time.Time
	of    ringer
	place int // in alarms, from 1; 0 if it is not set
}

// ringer is what an alarm is for.
type ringer interface{ ring() }

// ringFunc is a function as a ringer.
type ringFunc func()

func (f ringFunc) ring() { f() }

func (a *alarm) set() bool { return a.place > 0 }

// alarms are those that are set, as a heap.
type alarms []*alarm

// set sets an alarm, or moves it.
func (as *alarms) set(a *alarm, at time.Time) {
	a.at = at
	if a.place > 0 {
		heap.Fix(as, a.place-1)
		return
	}
	heap.Push(as, a)
}

func (as *alarms) unset(a *alarm) {
	if a.place > 0 {
		heap.Remove(as, a.place-1)
	}
}

// next returns the time of the next alarm; zero if there is none.
func (as *alarms) next() time.Time {
	if len(*as) == 0 {
		return time.Time{}
	}
	return (*as)[0].at
}

// Len implements heap.Interface.
func (as *alarms) Len() int { return len(*as) }

// Less implements heap.Interface.
func (as *alarms) Less(i, j int) bool { return (*as)[i].at.Before((*as)[j].at) }

// Swap implements heap.Interface.
func (as *alarms) Swap(i, j int) {
	a, b := (*as)[i], (*as)[j]
	(*as)[i], (*as)[j] = b, a
	a.place, b.place = j+1, i+1
}

// Push implements heap.Interface.
func (as *alarms) Push(x any) {
	a, _ := x.(*alarm)
	*as = append(*as, a)
	a.place = len(*as)
}

// Pop implements heap.Interface.
func (as *alarms) Pop() any {
	last := len(*as) - 1
	a := (*as)[last]
	(*as)[last] = nil
	*as = (*as)[:last]
	a.place = 0
	return a
}

// Tick is that time has passed.
type Tick struct{}

func (Tick) apply(m *Machine) {
	for len(m.alarms) > 0 && !m.alarms[0].at.After(m.now) {
		a := m.alarms[0]
		m.alarms.unset(a)
		a.of.ring()
	}
}
