package storetest_test

import (
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// byPartition reports whether the fault is in what claims by partition range use. The traces and the
// histories leave that out.
func (b broken) byPartition() bool {
	return slices.Contains([]string{"Ranges", "Look", "Insertions"}, b.group)
}

// rangeRules break the leases of ranges. The names in parentheses are those of the model's variants
// (docs/spec/partition.tla).
func rangeRules() []broken {
	const group = "Ranges"
	ofRange := func(spoil func(w written)) func(w written) {
		return func(w written) {
			if w.next.Range != nil {
				r := *w.next.Range
				w.next.Range = &r
				spoil(w)
			}
		}
	}
	taking := func(spoil func(w written)) func(r *rules) {
		return taken(ofRange(func(w written) {
			if w.seen.Range != nil {
				spoil(w)
			}
		}))
	}
	releasing := func(spoil func(w written)) func(
		r *rules) {
		return settled(store.OpRelease, ofRange(spoil))
	}
	return []broken{
		{"the first lease forgets its end", group, fresh(func(next *store.Entry) {
			if next.Range != nil {
				next.Range = new(store.Range)
			}
		}), false},
		{"a steal forgets what its owner may have begun", group, taking(func(w written) {
			if !w.seen.Released() {
				w.next.Range.Till = w.seen.Range.Till
			}
		}), false},
		{"a steal forgets what an earlier owner may have begun", group, taking(func(w written) {
			if !w.seen.Released() {
				w.next.Range.Till = w.seen.Range.End
			}
		}), false},
		{"a claim after a release forgets what is not settled (v_p_till)", group, taking(func(w written) {
			if w.seen.Released() {
				w.next.Range.Till = 0
			}
		}), false},
		{"a claim keeps the end of the range before", group,
			taking(func(w written) { w.next.Range.End = w.seen.Range.End }), false},
		{"the token of a lease does not grow", group, taking(func(w written) { w.next.Token = w.seen.Token }),
			false},
		{"the token of a lease is the time alone", group,
			taking(func(w written) { w.next.Token = w.now.UnixMilli() }), false},
		{"the token of a lease is not greater than the end of the one before", group,
			taking(func(w written) {
				w.next.Token = max(w.now.UnixMilli()-2*time.Minute.Milliseconds(),
					w.seen.Token+1)
			}), false},
		{"the token of a lease is less than the time", group,
			taking(func(w written) { w.next.Token = w.seen.Token + 1 }), false},
		{"a release keeps the end of the range", group,
			releasing(func(w written) { w.next.Range.End = w.seen.Range.End }), false},
		{"a release does not write what is not settled", group,
			releasing(func(w written) { w.next.Range.Till = w.seen.Range.Till }), false},
		{"a release does not end the lease", group,
			releasing(func(w written) { w.next.LeaseUntil = w.seen.LeaseUntil }), false},
		{"a late extension undoes a release (v_p_relock)", group, func(r *rules) {
			r.holds = func(s *store.Settlement, seen *store.Entry) bool {
				held := *seen
				if seen.Range != nil && s.Op == store.OpExtend {
					held.RetryAt = time.Time{}
				}
				return store.Holds(s, &held)
			}
		}, false},
		{"a release that is sent again writes again", group, func(r *rules) {
			r.holds = func(s *store.Settlement, seen *store.Entry) bool {
				return store.Holds(s, seen) || s.Range != nil && store.OwnSettlement(s, seen)
			}
		}, false},
		{"a list shows leases", group, func(r *rules) {
			r.matches = func(q store.ListQuery, entry *store.Entry, now time.Time) bool {
				q.Leases = true
				return q.Matches(entry, now)
			}
		}, true},
	}
}

// insertionRules break looks and the settlements that claim their key.
func insertionRules() []broken {
	const looks, insertions = "Look", "Insertions"
	overwriting := func(op store.SettleOp) func(r *rules) {
		return func(r *rules) {
			r.free = func(s *store.Settlement, found bool) bool { return !found || s.Op == op }
		}
	}
	inserted := func(spoil func(s *store.Settlement, next *store.Entry)) func(r *rules) {
		return func(r *rules) {
			r.committing.fresh = func(s *store.Settlement, next store.Entry) store.Entry {
				spoil(s, &next)
				return next
			}
		}
	}
	return []broken{
		{"a look writes", looks, func(r *rules) { r.touched = func(entry *store.Entry) { entry.Attempts++ } },
			false},
		{"a look does not return the entry", looks, func(r *rules) {
			r.looked = func(_ *store.ClaimRequest, res store.ClaimResult) store.ClaimResult {
				res.Entry = store.Entry{}
				return res
			}
		}, false},
		{"a look does not return a token for an absent key", looks, func(r *rules) {
			r.looked = func(_ *store.ClaimRequest, res store.ClaimResult) store.ClaimResult {
				if res.Entry.Status == "" {
					res.Entry.Token = 0
				}
				return res
			}
		}, false},
		{"a look does not see that retention is over", looks, func(r *rules) {
			r.looked = func(_ *store.ClaimRequest, res store.ClaimResult) store.ClaimResult {
				if res.State == store.ClaimUnknown && res.Entry.Status == store.StatusCompleted {
					res.State = store.ClaimCompleted
				}
				return res
			}
		}, false},
		{"a look reports a key that a claim takes as in flight", looks, func(r *rules) {
			r.looked = func(_ *store.ClaimRequest, res store.ClaimResult) store.ClaimResult {
				if res.State == store.ClaimUnknown && res.Err == nil &&
					res.Entry.Status == store.StatusStarted {
					res.State = store.ClaimInFlight
				}
				return res
			}
		}, false},
		{"a look does not compare fingerprints", looks, func(r *rules) {
			r.looked = func(_ *store.ClaimRequest,
				res store.ClaimResult) store.ClaimResult {
				res.Err = nil
				return res
			}
		}, false},
		{"an inserted completion overwrites (v_p_overwrite)", insertions, overwriting(store.OpComplete),
			false},
		{"an inserted failure overwrites (v_p_overwrite)", insertions, overwriting(store.OpFail), false},
		{"an inserted release overwrites (v_p_overwrite)", insertions, overwriting(store.OpRelease), false},
		{"an inserted release counts no attempt", insertions,
			inserted(func(s *store.Settlement, next *store.Entry) {
				if s.Op == store.OpRelease {
					next.Attempts = 0
				}
			}), false},
		{"an inserted entry has the token of the time (v_p_token)", insertions,
			inserted(func(_ *store.Settlement, next *store.Entry) {
				next.Token = next.UpdatedAt.UnixMilli()
			}), false},
		{"an inserted failure is left STARTED", insertions,
			inserted(func(s *store.Settlement, next *store.Entry) {
				if s.Op == store.OpFail {
					next.Status = store.StatusStarted
				}
			}), false},
		{"a fresh claim ignores the token of its lease (v_p_token)", insertions, func(r *rules) {
			r.fresh = func(req *store.ClaimRequest, now time.Time) store.Entry {
				next := store.Fresh(req, now)
				next.Token = store.FreshToken(now)
				return next
			}
		}, true},
		{"a fresh claim under a lease has no greater token than the lease", insertions, func(r *rules) {
			r.fresh = func(req *store.ClaimRequest, now time.Time) store.Entry {
				next := store.Fresh(req, now)
				if req.Token != 0 {
					next.Token = req.Token
				}
				return next
			}
		}, true},
	}
}
