package linear

import "github.com/idemsk/idemsk/idem/store"

// settled returns all outcomes of a settlement at a time in now.
func settled(e entry, s *store.Settlement, now span) (all []outcome) {
	if e.absent() || e.owner != s.Owner {
		return []outcome{{gotFenced, e}}
	}
	same, other := e.byToken(s.Token)
	for _, e := range same {
		switch {
		case e.held():
			for _, next := range written(e, s, now) {
				all = append(all, outcome{gotDone, next})
			}
		case s.Op == store.OpComplete && e.status == store.StatusCompleted,
			s.Op == store.OpFail && e.status == store.StatusFailed,
			s.Op == store.OpRelease && e.released:
			all = append(all, outcome{gotDone, e}) // it was applied before, and its reply was lost
		default:
			other = append(other, e)
		}
	}
	for _, e := range other {
		all = append(all, outcome{gotFenced, e})
	}
	return all
}

// written returns the entries that the owner's settlement may write.
func written(e entry, s *store.Settlement, now span) []entry {
	if s.Op == store.OpExtend {
		return extended(e, s, now)
	}
	e.updated, e.expiry = now, now.plus(s.Retention).ceil()
	if s.Failure != nil && s.Op != store.OpComplete {
		e.failure = textOf(s.Failure)
	}
	switch s.Op { //nolint:exhaustive // OpExtend is above
	case store.OpComplete:
		e.status, e.result, e.failure = store.StatusCompleted, string(s.Result), ""
		if s.Effect != nil {
			e.effects++
		}
	case store.OpFail:
		e.status = store.StatusFailed
	case store.OpRelease:
		e.released, e.retry = true, now.plus(s.Delay)
		e.expiry = e.retry.plus(s.Retention).ceil()
		if s.Refund {
			e.attempts--
		}
	}
	return []entry{e}
}

// extended returns the entries after an extension: the longer lease, or the entry as it was if its lease is
// longer.
func extended(e entry, s *store.Settlement, now span) (all []entry) {
	lease := now.plus(s.Lease)
	if lease.lo < e.lease.hi {
		all = append(all, e)
	}
	if lease.hi >= e.lease.lo {
		e.lease, e.updated, e.expiry = lease, now, lease.plus(s.Retention).ceil()
		all = append(all, e)
	}
	return all
}
