package batch

// This file is about items of a stream that share a key. One of them uses the key: from when its claim is
// sent until it has ended or its claim was released. An item with the same key and the same request takes its
// outcome, and its lane goes on as soon as the user's handler has returned. An item with another request
// waits for the user's end.
//
// An item waits only when it is the next of its lane, which then holds no claims. So a user that has not
// begun does not wait for an item of another lane for ever, and there is no deadlock.

// sharesWith reports whether an item makes the same request as the one that uses its key. The outcome of a
// substitute, which has a key of its own, is not shared.
func (it *streamItem) sharesWith(other *streamItem) bool {
	return it.key == it.Task.Key && requestOf(&it.Task) == requestOf(&other.Task)
}

// share lets another item take the outcome of the one that uses its key.
func (it *streamItem) share(other *streamItem) {
	other.phase = sharing
	it.sharers = append(it.sharers, other)
}

// freeKey lets other items use an item's key. Those that would have taken its outcome use the key themselves.
func (it *streamItem) freeKey() {
	if keys := it.lane.stream.keys; keys[it.key] == it {
		delete(keys, it.key)
	}
	sharers := it.sharers
	it.sharers = nil
	for _, other := range sharers {
		other.claimItself()
	}
	it.wakeWaiting()
}

// claimItself makes an item that was to share an outcome use the key itself.
func (it *streamItem) claimItself() {
	if it.open {
		it.lane.putBack(it)
	}
	it.phase, it.lane.sent = queued, 0
	it.lane.touch()
}

// wakeWaiting lets the lanes look again whose next item has the key.
func (it *streamItem) wakeWaiting() {
	waiting := it.waiting
	it.waiting = nil
	for _, l := range waiting {
		l.wake(laneWaiting)
	}
}

// conclude ends an item whose handler has returned and whose outcome is known, or returns it to its lane.
func (it *streamItem) conclude() {
	if it.again {
		it.lane.putBack(it)
		it.freeKey()
		return
	}
	sharers := it.sharers
	it.sharers = nil
	for _, other := range sharers {
		other.take(it)
	}
	it.freeKey()
	it.lane.conclude(it)
}

// take takes over the outcome of the item that used the key.
func (it *streamItem) take(from *streamItem) {
	switch settled := from.Outcome.Kind.Settled(); {
	case it.removed && !it.open: // by Stop
	case it.open:
		it.Outcome, it.Duplicate = from.Outcome, true
		it.lane.conclude(it)
	case settled:
		it.Outcome, it.Duplicate, it.phase = from.Outcome, true, shared
		it.lane.touch()
	default:
		it.claimItself()
	}
}
