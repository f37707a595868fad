package storetest_test

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

func rule1() []broken {
	const group = "Rule1_OneWinner"
	return []broken{
		{"a fresh claim does not ask for absence", group,
			func(r *rules) { r.absent = func(bool) bool { return true } }, true},
		{"a take-over is unconditional", group, comparing(func(_, _ *store.Entry) bool { return true }),
			true},
	}
}

func rule2() []broken {
	const group = "Rule2_FencingTokenGrows"
	return []broken{
		{"the token begins at 1", group, fresh(func(next *store.Entry) { next.Token = 1 }), false},
		{"a take-over keeps the token", group, taken(func(w written) { w.next.Token = w.seen.Token }), false},
		{"a take-over resets the token", group, taken(func(w written) { w.next.Token = w.now.UnixMilli() }),
			false},
		{"a settlement raises the token", group, settled(0, func(w written) { w.next.Token++ }), false},
	}
}

func rule3() []broken {
	const group = "Rule3_OnlyTheOwnerSettles"
	return []broken{
		{"a settlement ignores the owner", group,
			ignoring(func(s *store.Settlement, seen *store.Entry) { seen.Owner = s.Owner }), false},
		{"a settlement ignores the token", group,
			ignoring(func(s *store.Settlement, seen *store.Entry) { seen.Token = s.Token }), false},
		{"a settlement ignores owner and token", group,
			ignoring(func(s *store.Settlement, seen *store.Entry) {
				seen.Owner, seen.Token = s.Owner, s.Token
			}), false},
		{"a settlement ignores the status", group,
			ignoring(func(_ *store.Settlement, seen *store.Entry) { seen.Status = store.StatusStarted }),
			false},
		{"a settlement ignores the release before it", group,
			ignoring(func(_ *store.Settlement, seen *store.Entry) { seen.RetryAt = time.Time{} }), false},
		{"a settlement wants a live lease", group, settled(0, func(w written) {
			if w.now.After(w.seen.LeaseUntil) {
				*w.next = *w.seen
			}
		}), false},
		{"a settlement takes any key of its status for its own", group, func(r *rules) {
			r.own = func(s *store.Settlement, seen *store.Entry) bool {
				mine := *seen
				mine.Owner, mine.Token = s.Owner, s.Token
				return store.OwnSettlement(s, &mine)
			}
		}, false},
		{"a settlement recognises itself by its owner alone", group, func(r *rules) {
			r.own = func(s *store.Settlement, seen *store.Entry) bool {
				mine := *seen
				mine.Token = s.Token
				return store.OwnSettlement(s, &mine)
			}
		}, true},
		{"a settlement recognises itself by its token alone", group, func(r *rules) {
			r.own = func(s *store.Settlement, seen *store.Entry) bool {
				mine := *seen
				mine.Owner = s.Owner
				return store.OwnSettlement(s, &mine)
			}
		}, true},
		{"a settlement takes any key of its own for settled", group, func(r *rules) {
			r.own = func(s *store.Settlement, seen *store.Entry) bool {
				return seen.Owner == s.Owner && seen.Token == s.Token
			}
		}, false},
		{"a refusal does not show the key", group, func(r *rules) {
			r.shown = func(store.Entry) store.Entry { return store.Entry{} }
		}, true},
	}
}

func rule4() []broken {
	const group = "Rule4_FinalStates"
	return []broken{
		{"COMPLETED is taken", group, takingWhen(store.ClaimCompleted, always), false},
		{"FAILED is taken", group, takingWhen(store.ClaimFailed, always), false},
		{"the result is lost", group, settled(store.OpComplete, func(w written) { w.next.Result = nil }),
			false},
		{"the failure is lost", group, settled(store.OpFail,
			func(w written) { w.next.Failure = w.seen.Failure }), false},
		{"the failure is undated", group, settled(store.OpFail, func(w written) {
			w.next.Failure = &store.Failure{Code: w.next.Failure.Code, Message: w.next.Failure.Message}
		}), false},
		{"a completion keeps the failure before", group,
			settled(store.OpComplete, func(w written) { w.next.Failure = w.seen.Failure }), false},
		{"a completion is forgotten at once", group,
			settled(store.OpComplete, func(w written) { w.next.Expiry = store.Expiry(w.now, 0) }), false},
		{"a failure is forgotten at once", group,
			settled(store.OpFail, func(w written) { w.next.Expiry = store.Expiry(w.now, 0) }), false},
		{"retention ends without the skew", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			if l.seen.Status != store.StatusStarted {
				l.skew = 0
			}
			return l.judge()
		}), false},
		{"retention never ends", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.now = l.now.Add(-24 * time.Hour)
			return l.judge()
		}), false},
	}
}

func rule5() []broken {
	const group = "Rule5_LostReplies"
	return []broken{
		{"a claim does not recognise itself", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.req.Owner += "?"
			return l.judge()
		}), false},
		{"a claim without an owner recognises itself", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if l.seen.Status == store.StatusStarted && l.seen.Owner == "" && l.req.Owner == "" {
					return store.VerdictReport, store.ClaimResult{State: store.Claimed, Entry: *l.seen}
				}
				return l.judge()
			}), true},
		{"a claim that recognises itself returns another lease", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				verdict, res := l.judge()
				if l.own() {
					res.Entry.LeaseUntil = l.now.Add(l.req.Lease)
				}
				return verdict, res
			}), false},
		{"a claim that recognises itself takes the key again", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if l.own() {
					return take()
				}
				return l.judge()
			}), false},
		{"a claim recognises itself in a key that it has released", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if l.seen.Status == store.StatusStarted && l.seen.Owner == l.req.Owner {
					return store.VerdictReport, store.ClaimResult{State: store.Claimed, Entry: *l.seen}
				}
				return l.judge()
			}), false},
		{"a claim recognises itself in a key that it has completed", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				verdict, res := l.judge()
				if res.State == store.ClaimCompleted && l.seen.Owner == l.req.Owner {
					res.State = store.Claimed
				}
				return verdict, res
			}), false},
		{"a claim recognises itself only during its lease", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if l.own() && l.now.After(l.seen.LeaseUntil) {
					return take()
				}
				return l.judge()
			}), false},
		{"a settlement does not recognise itself", group,
			func(r *rules) { r.own = func(*store.Settlement, *store.Entry) bool { return false } }, false},
		{"a refund counts twice", group, func(r *rules) {
			r.holds = func(s *store.Settlement, seen *store.Entry) bool {
				return store.Holds(s, seen) || s.Refund && store.OwnSettlement(s, seen)
			}
		}, false},
		{"a take-over keeps the owner", group, taken(func(w written) { w.next.Owner = w.seen.Owner }), false},
		{"a settlement forgets the owner", group, settled(0, func(w written) { w.next.Owner = "" }), false},
	}
}

func rule6() []broken {
	const group = "Rule6_Fingerprint"
	return []broken{
		{"fingerprints are not compared", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.req.Fingerprint = store.Fingerprint{}
			return l.judge()
		}), false},
		{"fingerprints are compared in final states only", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if l.seen.Status == store.StatusStarted {
					l.req.Fingerprint = store.Fingerprint{}
				}
				return l.judge()
			}), false},
		{"fingerprints are compared in STARTED only", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if l.seen.Status != store.StatusStarted {
					l.req.Fingerprint = store.Fingerprint{}
				}
				return l.judge()
			}), false},
		{"no fingerprint is one like any other", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				verdict, res := l.judge()
				if res.State == store.ClaimCompleted && l.req.Fingerprint != l.seen.Fingerprint {
					verdict = store.VerdictMismatch
				}
				return verdict, res
			}), false},
		{"a mismatch leaves a trace", group, func(r *rules) {
			r.mismatched = func(entry *store.Entry) {
				entry.UpdatedAt = entry.UpdatedAt.Add(
					time.Millisecond)
			}
		}, false},
		{"a redrive may bring another fingerprint", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if store.Redriven(&l.req, l.seen) {
					return take()
				}
				return l.judge()
			}), false},
		{"the fingerprint comes before the end of retention", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				if !l.own() && store.Mismatch(&l.req, l.seen) {
					return store.VerdictMismatch, store.ClaimResult{Entry: *l.seen}
				}
				return l.judge()
			}), false},
		{"a take-over keeps the fingerprint", group, func(r *rules) {
			r.take = func(req *store.ClaimRequest, seen *store.Entry, now time.Time) store.Entry {
				next := store.Take(req, seen, now)
				next.Fingerprint = seen.Fingerprint
				return next
			}
		}, false},
	}
}

func rule7() []broken {
	const group = "Rule7_Leases"
	return []broken{
		{"a live lease is taken", group,
			takingWhen(store.ClaimInFlight, func(l look) bool { return !l.seen.Released() }), false},
		{"a delay is ignored", group, takingWhen(store.ClaimInFlight,
			func(l look) bool { return l.seen.Released() }), false},
		{"a lease ends a millisecond early", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.now = l.now.Add(time.Millisecond)
			return l.judge()
		}), false},
		{"a lease ends a millisecond late", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.now = l.now.Add(-time.Millisecond)
			return l.judge()
		}), false},
		{"a lease ends without the skew", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.skew = 0
			return l.judge()
		}), false},
		{"a delay ends with the skew", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			if l.seen.Released() {
				l.now = l.now.Add(-l.skew)
			}
			return l.judge()
		}), false},
		{"the end of a lease is not reported", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				verdict, res := l.judge()
				res.ClaimableIn = 0
				return verdict, res
			}), false},
		{"a lease that is over is taken without TakeOver", group, takingWhen(store.ClaimLeaseOver, always),
			false},
		{"a released key is not taken without TakeOver", group,
			judging(func(l look) (store.Verdict, store.ClaimResult) {
				verdict, res := l.judge()
				if verdict == store.VerdictTake && l.seen.Released() && !l.req.TakeOver {
					verdict, res.State = store.VerdictReport, store.ClaimLeaseOver
				}
				return verdict, res
			}), false},
		{"a steal compares the token alone", group,
			comparing(func(seen, now *store.Entry) bool { return seen.Token == now.Token }), true},
		{"a steal does not compare the status", group, comparing(func(seen, now *store.Entry) bool {
			return seen.Token == now.Token && seen.Owner == now.Owner &&
				seen.LeaseUntil.Equal(now.LeaseUntil) && seen.RetryAt.Equal(now.RetryAt)
		}), true},
		{"a steal does not compare the lease", group, comparing(func(seen, now *store.Entry) bool {
			return seen.Token == now.Token && seen.Owner == now.Owner && seen.Status == now.Status &&
				seen.RetryAt.Equal(now.RetryAt)
		}), true},
		{"a steal does not compare the delay", group, comparing(func(seen, now *store.Entry) bool {
			return seen.Token == now.Token && seen.Owner == now.Owner && seen.Status == now.Status &&
				seen.LeaseUntil.Equal(now.LeaseUntil)
		}), true},
		{"a steal does not compare the token", group, comparing(func(seen, now *store.Entry) bool {
			return seen.Status == now.Status && seen.RetryAt.Equal(now.RetryAt)
		}), true},
		{"an extension shortens the lease", group,
			settled(store.OpExtend, func(w written) { w.next.LeaseUntil = w.now.Add(w.set.Lease) }), false},
		{"an extension does nothing", group, settled(store.OpExtend, func(w written) { *w.next = *w.seen }),
			false},
		{"a release has no delay", group,
			settled(store.OpRelease, func(w written) { w.next.RetryAt = w.now }), false},
	}
}

func rule8() []broken {
	const group = "Rule8_Attempts"
	return []broken{
		{"a fresh claim is not charged", group, fresh(func(next *store.Entry) { next.Attempts = 0 }), false},
		{"a take-over is not charged", group, taken(func(w written) { w.next.Attempts = w.seen.Attempts }),
			false},
		{"a steal resets the attempts", group, taken(func(w written) {
			if store.Stolen(w.seen) {
				w.next.Attempts = 1
			}
		}), false},
		{"a release resets the attempts", group, taken(func(w written) {
			if w.seen.Released() {
				w.next.Attempts = 1
			}
		}), false},
		{"an extension is charged", group, settled(store.OpExtend, func(w written) { w.next.Attempts++ }),
			false},
		{"a refund is kept", group, settled(store.OpRelease,
			func(w written) { w.next.Attempts = w.seen.Attempts }), false},
		{"every release is refunded", group,
			settled(store.OpRelease, func(w written) { w.next.Attempts = w.seen.Attempts - 1 }), false},
		{"a release without a failure forgets the one before", group,
			settled(store.OpRelease, func(w written) {
				if w.set.Failure == nil {
					w.next.Failure = nil
				}
			}), false},
		{"a completion forgets the attempts", group,
			settled(store.OpComplete, func(w written) { w.next.Attempts = 1 }), false},
	}
}

func rule9() []broken {
	const group = "Rule9_Expiry"
	return []broken{
		{"STARTED expires too", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			if !l.own() && !l.now.Before(l.seen.Expiry.Add(l.skew)) {
				return take()
			}
			return l.judge()
		}), false},
		{"a claim expires with its lease", group,
			fresh(func(next *store.Entry) { next.Expiry = store.Expiry(next.LeaseUntil, 0) }), false},
		{"the expiry is rounded down", group,
			fresh(func(next *store.Entry) { next.Expiry = next.Expiry.Add(-time.Second) }), false},
		{"the expiry is in milliseconds", group,
			fresh(func(next *store.Entry) { next.Expiry = next.Expiry.Add(time.Millisecond) }), false},
		{"a take-over keeps the expiry", group, taken(func(w written) { w.next.Expiry = w.seen.Expiry }),
			false},
		{"an extension keeps the expiry", group,
			settled(store.OpExtend, func(w written) { w.next.Expiry = w.seen.Expiry }), false},
		{"a release keeps the expiry", group,
			settled(store.OpRelease, func(w written) { w.next.Expiry = w.seen.Expiry }), false},
		{"an expired key keeps its attempts", group,
			taken(func(w written) { w.next.Attempts = w.seen.Attempts + 1 }), false},
		{"an expired key keeps its result", group, taken(func(w written) { w.next.Result = w.seen.Result }),
			false},
		{"an expired key keeps the size of its result", group,
			taken(func(w written) { w.next.ResultOmitted = w.seen.ResultOmitted }), false},
		{"an expired key keeps its age", group,
			taken(func(w written) { w.next.CreatedAt = w.seen.CreatedAt }), false},
		{"an expired key keeps its failure", group,
			taken(func(w written) { w.next.Failure = w.seen.Failure }), false},
		{"TTL deletes locks", group, func(r *rules) {
			r.swept = func(entry *store.Entry, now time.Time) bool {
				return now.After(entry.LeaseUntil) || !now.Before(entry.Expiry)
			}
		}, false},
	}
}

func rule10() []broken {
	const group = "Rule10_Redrive"
	return []broken{
		{"a redrive is ignored", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.req.RedriveToken = 0
			return l.judge()
		}), false},
		{"a redrive opens every failure", group,
			takingWhen(store.ClaimFailed, func(l look) bool { return l.req.RedriveToken > 0 }), false},
		{"a redrive opens older failures too", group,
			takingWhen(store.ClaimFailed, func(l look) bool { return l.seen.Token < l.req.RedriveToken }),
			false},
		{"a redrive opens the next failure", group, judging(func(l look) (store.Verdict, store.ClaimResult) {
			l.req.RedriveToken++
			return l.judge()
		}), false},
		{"a redrive opens COMPLETED", group, takingWhen(store.ClaimCompleted, redriven), false},
		{"a redrive takes a live lease", group, takingWhen(store.ClaimInFlight, redriven), false},
		{"a redriven key keeps its attempts", group, taken(func(w written) {
			if w.seen.Status == store.StatusFailed {
				w.next.Attempts = w.seen.Attempts + 1
			}
		}), false},
		{"a redriven key keeps its failure", group, taken(func(w written) {
			if w.seen.Status == store.StatusFailed {
				w.next.Failure = w.seen.Failure
			}
		}), false},
	}
}

func beyondTheRules() []broken {
	return []broken{
		{"an omitted result is not noted", "Entries",
			settled(store.OpComplete, func(w written) { w.next.ResultOmitted = 0 }), false},
		{"the source is lost", "Entries", fresh(func(next *store.Entry) { next.Source = "" }), false},
		{"the time of creation is lost", "Entries",
			fresh(func(next *store.Entry) { next.CreatedAt = time.Time{} }), false},
		{"a settlement is undated", "Entries",
			settled(0, func(w written) { w.next.UpdatedAt = w.seen.UpdatedAt }), false},
		{"a take-over resets the time of creation", "Entries",
			taken(func(w written) { w.next.CreatedAt = w.now }), false},
		{"entries are shared with callers", "Entries",
			func(r *rules) { r.copied = func(entry store.Entry) store.Entry { return entry } }, true},
		{"contexts are ignored", "Contexts",
			func(r *rules) { r.ended = func(context.Context) error { return nil } }, true},
		{"a list is not filtered", "Admin",
			func(r *rules) {
				r.matches = func(store.ListQuery, *store.Entry,
					time.Time) bool {
					return true
				}
			}, true},
		{"a deletion ignores the token", "Admin",
			func(r *rules) { r.deletes = func(*store.Entry, int64) bool { return true } }, false},
	}
}
