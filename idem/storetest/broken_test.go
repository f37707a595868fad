package storetest_test

import (
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// broken is a store with one fault, and the group of the suite that must detect it.
type broken struct {
	name  string
	group string
	how   func(r *rules)
	// unseen means that a history on one thread can't show the fault: it needs a race, or answers that are
	// not compared.
	unseen bool
}

// look is a claim on an existing key.
type look struct {
	req  store.ClaimRequest
	seen *store.Entry
	now  time.Time
	skew time.Duration
}

func (l look) judge() (store.Verdict, store.ClaimResult) {
	return store.Judge(&l.req, l.seen, l.now, l.skew)
}

func (l look) own() bool { return store.OwnClaim(&l.req, l.seen) }

// take is the verdict that takes the key.
func take() (store.Verdict, store.ClaimResult) { return store.VerdictTake, store.ClaimResult{} }

func judging(judge func(l look) (store.Verdict, store.ClaimResult)) func(r *rules) {
	return func(r *rules) {
		r.judge = func(req *store.ClaimRequest, seen *store.Entry, now time.Time,
			skew time.Duration) (store.Verdict, store.ClaimResult) {
			return judge(look{*req, seen, now, skew})
		}
	}
}

// takingWhen lets a claim take a key that it should only report.
func takingWhen(state store.ClaimState, and func(l look) bool) func(r *rules) {
	return judging(func(l look) (store.Verdict, store.ClaimResult) {
		verdict, res := l.judge()
		if res.State == state && and(l) {
			return take()
		}
		return verdict, res
	})
}

func always(look) bool { return true }

func redriven(l look) bool { return l.seen.Token == l.req.RedriveToken }

// fresh changes the entry that a claim on an absent key writes.
func fresh(spoil func(next *store.Entry)) func(r *rules) {
	return func(r *rules) {
		r.fresh = func(req *store.ClaimRequest, now time.Time) store.Entry {
			next := store.Fresh(req, now)
			spoil(&next)
			return next
		}
	}
}

// written is a write over an existing key.
type written struct {
	set        *store.Settlement // nil for a claim
	seen, next *store.Entry
	now        time.Time
}

// taken changes the entry that a claim writes over a key.
func taken(spoil func(w written)) func(r *rules) {
	return func(r *rules) {
		r.take = func(req *store.ClaimRequest, seen *store.Entry, now time.Time) store.Entry {
			next := store.Take(req, seen, now)
			spoil(written{nil, seen, &next, now})
			return next
		}
	}
}

// settled changes the entry that a settlement writes. only is the kind of settlement, 0 for all.
func settled(only store.SettleOp, spoil func(w written)) func(r *rules) {
	return func(r *rules) {
		r.settled = func(s *store.Settlement, seen *store.Entry, now time.Time) store.Entry {
			next := store.Settled(s, seen, now)
			if only == 0 || only == s.Op {
				spoil(written{s, seen, &next, now})
			}
			return next
		}
	}
}

// ignoring makes a settlement ignore a part of the entry: wish sets it to the accepted value.
func ignoring(wish func(s *store.Settlement, seen *store.Entry)) func(r *rules) {
	return func(r *rules) {
		r.holds = func(s *store.Settlement, seen *store.Entry) bool {
			wished := *seen
			wish(s, &wished)
			return store.Holds(s, &wished)
		}
	}
}

// comparing replaces the condition of take-overs by a weaker one.
func comparing(same func(seen, now *store.Entry) bool) func(r *rules) {
	return func(r *rules) { r.asSeen = same }
}
