package machine

// This file is about items that share a key. One of them uses the key: from when its claim is sent until it
// has ended or its claim was released. An item with the same key and the same request takes its outcome, and
// its lane goes on as soon as the user's handler has returned. An item with another request waits for the
// user's end. In a batch, an item also takes the outcome of one that has ended.
//
// An item waits only when it is the next of its lane, which then holds no claims. So a user that has not
// begun does not wait for an item of another lane for ever, and there is no deadlock.

// use gives an item a key that no other item uses.
func (m *Machine) use(it *Item) {
	it.key = it.Key
	m.keys[it.key] = it
}

// sharesWith reports whether an item makes the same request as the one that uses its key. The outcome of a
// substitute, which has a key of its own, is not shared.
func (it *Item) sharesWith(other *Item) bool {
	return !it.Replaced && it.Request == other.Request
}

// share lets another item take the outcome of the one that uses its key.
func (it *Item) share(other *Item) {
	other.phase = sharing
	it.sharers = append(it.sharers, other)
}

// freeKey lets other items use an item's key. Those that would have taken its outcome use the key themselves.
func (it *Item) freeKey() {
	if keys := it.lane.machine.keys; keys[it.key] == it {
		delete(keys, it.key)
	}
	sharers := it.sharers
	it.sharers = nil
	for _, other := range sharers {
		other.claimItself()
	}
	it.wakeWaiting()
}

// claimItself makes an item that was to share an outcome use the key itself. The claims behind it are released,
// because it may have to wait.
func (it *Item) claimItself() {
	if it.open {
		it.lane.putBack(it)
	}
	it.phase = queued
	it.lane.unclaim()
}

// wakeWaiting lets the lanes look again whose next item has the key.
func (it *Item) wakeWaiting() {
	waiting := it.waiting
	it.waiting = nil
	for _, l := range waiting {
		l.wake(laneWaiting)
	}
}

// take takes over the outcome of the item that used the key.
func (it *Item) take(from *Item) {
	settled := from.End.settled()
	switch {
	case it.removed && !it.open: // by Stop
	case it.open:
		it.copy(from)
		it.lane.conclude(it)
	case settled || it.lane.machine.Once:
		it.copy(from)
		it.phase = shared
		it.lane.touch()
	default:
		it.claimItself()
	}
}

// copy lets an item end as another one did.
func (it *Item) copy(from *Item) {
	it.End, it.RetryIn, it.duplicate = from.End, from.RetryIn, true
	it.lane.machine.do(Action{Kind: DoShare, Item: it, From: from})
}

// twinsOf returns the keys that several items have, of those that are claimed.
func twinsOf(lanes [][]*Item) map[string][]*Item {
	n := 0
	for _, items := range lanes {
		n += len(items)
	}
	times, twins := make(map[string]int, n), make(map[string][]*Item)
	for _, items := range lanes {
		for _, it := range items {
			key := it.Key
			if times[key]++; times[key] > 1 {
				twins[key] = nil
			}
		}
	}
	return twins
}

// isTwin reports whether another item of the batch has the item's key.
func (it *Item) isTwin() bool {
	_, ok := it.lane.machine.twins[it.Key]
	return ok
}

// noteEnded lets items that make the same request take the outcome of an item of a batch that has ended.
func (m *Machine) noteEnded(it *Item) {
	if others, ok := m.twins[it.key]; ok && !it.duplicate {
		m.twins[it.key] = append(others, it)
	}
}

// endedTwin returns the item of the batch that has ended and made the same request, nil if there is none.
func (it *Item) endedTwin() *Item {
	for _, other := range it.lane.machine.twins[it.Key] {
		if other.sharesWith(it) {
			return other
		}
	}
	return nil
}

// takeFromTwin takes the outcome of an item of the batch that has ended and made the same request; false if
// there is none.
func (it *Item) takeFromTwin() bool {
	twin := it.endedTwin()
	if twin != nil {
		it.take(twin)
	}
	return twin != nil
}
