package linear

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idemsk/idemsk/idem/store"
)

// The histories of this file are at times in ms after t0. Claims have a lease of 100 ms and a retention of 1
// s; the skew is 20 ms.
const t0 = 1_000_000

func at(ms int64) time.Time { return time.UnixMilli(t0 + ms) }

// startedAt is the entry after a first claim.
func startedAt(ms int64, owner string) store.Entry {
	e := store.Entry{Status: store.StatusStarted, Token: t0 + ms, Owner: owner, Attempts: 1,
		CreatedAt: at(ms)}
	return heldFrom(e, ms)
}

func heldFrom(e store.Entry, ms int64) store.Entry {
	e.UpdatedAt, e.LeaseUntil, e.Expiry = at(ms), at(ms+100), time.UnixMilli(ceil(t0+ms+1100))
	return e
}

// stolenAt is the entry after a take-over.
func stolenAt(ms int64, owner string, e store.Entry) store.Entry {
	e.Token, e.Owner, e.Attempts = e.Token+1, owner, e.Attempts+1
	return heldFrom(e, ms)
}

// settledAt is the entry after a settlement with a retention of 1 s.
func settledAt(ms int64, e store.Entry, status store.Status) store.Entry {
	e.Status, e.UpdatedAt, e.Expiry = status, at(ms), time.UnixMilli(ceil(t0+ms+1000))
	return e
}

func releasedAt(ms int64, e store.Entry) store.Entry {
	e = settledAt(ms, e, store.StatusStarted)
	e.RetryAt = at(ms)
	return e
}

// from returns the operation as a call between two times.
func (o *operation) from(begun, ended int64) *operation {
	c := *o
	c.begun, c.ended, c.now = begun, ended, span{t0 + begun, t0 + ended}
	return &c
}

// sentAgain returns the operation as one that was sent twice.
func (o *operation) sentAgain() *operation {
	c := *o
	c.again = 1
	return &c
}

func claim(owner string, answer kind, shown store.Entry) *operation {
	o := &operation{answer: answer, claim: &store.ClaimRequest{Owner: owner, Lease: 100 * time.Millisecond,
		Retention: time.Second, TakeOver: true}}
	if o.entry = &shown; answer == gotNothing {
		o.entry = nil
	}
	return o
}

func inFlight(owner string, wait time.Duration, shown store.Entry) *operation {
	o := claim(owner, gotInFlight, shown)
	o.wait = wait
	return o
}

func contended(owner string) *operation {
	o := claim(owner, gotContended, store.Entry{})
	o.entry = nil
	return o
}

func redrive(token int64, o *operation) *operation {
	o.claim.RedriveToken = token
	return o
}

func settle(op store.SettleOp, held store.Entry, answer kind, shown ...store.Entry) *operation {
	o := &operation{answer: answer, settle: &store.Settlement{Op: op, Owner: held.Owner, Token: held.Token,
		Lease: 200 * time.Millisecond, Retention: time.Second}}
	if len(shown) > 0 {
		o.entry = &shown[0]
	}
	return o
}

func get(shown store.Entry) *operation {
	o := &operation{get: true, answer: gotFound, entry: &shown}
	if shown.Status == "" {
		o.answer, o.entry = gotNotFound, nil
	}
	return o
}

type effect struct{}

func (effect) Seal() (bool, error) { return true, nil }
func (effect) Discard()            {}

func withEffect(o *operation) *operation {
	c, s := *o, *o.settle
	s.Effect = effect{}
	c.settle = &s
	return &c
}

func count(n int) *operation { return &operation{count: &n, answer: gotCount} }

func remove(token int64, answer kind) *operation {
	return &operation{remove: &token, answer: answer}
}

func TestHistories(t *testing.T) {
	first := startedAt(0, "a")
	var none store.Entry
	claimed := claim("a", gotClaimed, first).from(0, 1)
	stolen := stolenAt(130, "b", first)
	completed := settledAt(50, first, store.StatusCompleted)
	failed := settledAt(50, first, store.StatusFailed)
	released := releasedAt(50, first)
	complete := settle(store.OpComplete, first, gotDone).from(50, 51)
	release := settle(store.OpRelease, first, gotDone).from(50, 51)
	reclaimed := stolenAt(60, "b", released)
	reclaimed.RetryAt = time.Time{}
	redriven := stolenAt(60, "b", failed)
	redriven.Status, redriven.Attempts, redriven.CreatedAt = store.StatusStarted, 1, at(60)
	late := stolenAt(70, "a", reclaimed)
	tests := map[string]struct {
		want porcupine.CheckResult
		ops  []*operation
	}{
		"a claim, its completion and a duplicate": {porcupine.Ok, []*operation{
			claimed, inFlight("b", 100*time.Millisecond, first).from(20, 20), complete,
			claim("b", gotCompleted, completed).from(60, 61), get(completed).from(70, 71),
		}},
		"two concurrent claims": {porcupine.Ok, []*operation{
			inFlight("b", 119*time.Millisecond, first).from(0, 2), claim("a", gotClaimed, first).from(0, 2),
		}},
		"two winners": {porcupine.Illegal, []*operation{
			claim("b", gotClaimed, startedAt(1, "b")).from(0, 2),
			claim("a", gotClaimed, startedAt(1, "a")).from(0, 2),
		}},
		"a claim that was written at another time": {porcupine.Illegal,
			[]*operation{claim("a", gotClaimed, startedAt(2, "a")).from(0, 1)}},
		"a lease that is over": {porcupine.Ok,
			[]*operation{claimed, claim("b", gotStolen, stolenAt(120, "b", first)).from(115, 120)}},
		"a lease that is taken a millisecond early": {porcupine.Illegal,
			[]*operation{claimed, claim("b", gotStolen, stolenAt(119, "b", first)).from(115, 119)}},
		"a lease that is in flight until its end": {porcupine.Ok,
			[]*operation{claimed, inFlight("b", time.Millisecond, first).from(119, 119)}},
		"a lease that is in flight after its end": {porcupine.Illegal,
			[]*operation{claimed, inFlight("b", time.Millisecond, first).from(120, 121)}},
		"a wait that does not end with the lease": {porcupine.Illegal,
			[]*operation{claimed, inFlight("b", 50*time.Millisecond, first).from(50, 51)}},
		"a take-over that keeps the token": {porcupine.Illegal,
			[]*operation{claimed, claim("b", gotStolen, heldFrom(startedAt(0, "b"), 130)).from(130, 131)}},
		"a settlement by the owner before": {porcupine.Illegal,
			[]*operation{claimed, claim("b", gotStolen, stolen).from(130, 131),
				settle(store.OpComplete, first, gotDone).from(140, 141)}},
		"a fenced settlement": {porcupine.Ok,
			[]*operation{claimed, claim("b", gotStolen, stolen).from(130, 131),
				settle(store.OpComplete, first, gotFenced, stolen).from(140, 141)}},
		"a refusal for the owner": {porcupine.Illegal,
			[]*operation{claimed, settle(store.OpComplete, first, gotFenced, first).from(50, 51)}},
		"a completion that is lost": {porcupine.Illegal,
			[]*operation{claimed, complete, get(first).from(60, 61)}},
		"a completion that takes effect before it returns": {porcupine.Ok,
			[]*operation{claimed, settle(store.OpComplete, first, gotDone).from(50, 70),
				get(completed).from(55, 56)}},
		"a read from the past": {porcupine.Illegal,
			[]*operation{claimed, settle(store.OpComplete, first, gotDone).from(50, 70),
				get(completed).from(55, 56), get(first).from(57, 58)}},
		"a completion that is sent twice": {porcupine.Ok,
			[]*operation{claimed, complete, settle(store.OpComplete, first, gotDone).from(60, 61)}},
		"a completion without an answer": {porcupine.Ok,
			[]*operation{claimed, settle(store.OpComplete, first, gotNothing).from(50, 51),
				get(first).from(60, 61)}},
		"a completion without an answer, later": {porcupine.Ok, []*operation{
			claimed, settle(store.OpComplete, first, gotNothing).from(50, 51), get(first).from(60, 61),
			get(settledAt(65, first, store.StatusCompleted)).from(70, 71),
		}},
		"a completion without an answer, undone": {porcupine.Illegal, []*operation{
			claimed, settle(store.OpComplete, first, gotNothing).from(50, 51), get(completed).from(60, 61),
			get(first).from(70, 71),
		}},
		"a claim after a release": {porcupine.Ok,
			[]*operation{claimed, release, claim("b", gotClaimed, reclaimed).from(60, 61)}},
		"a claim whose first request is late": {porcupine.Ok,
			[]*operation{claimed.sentAgain(), release, get(stolenAgain(60, released)).from(70, 71)}},
		"a claim that is repeated": {porcupine.Illegal,
			[]*operation{claimed, release, get(stolenAgain(60, released)).from(70, 71)}},
		"a late request that takes a live key": {porcupine.Illegal,
			[]*operation{claimed.sentAgain(), release, claim("b", gotClaimed, reclaimed).from(60, 61),
				get(late).from(75, 76)}},
		"an extension": {porcupine.Ok, []*operation{
			claimed, settle(store.OpExtend, first, gotDone).from(50, 51),
			inFlight("b", 70*time.Millisecond, extendedAt(50, first)).from(200, 200),
		}},
		"an extension without an effect": {porcupine.Illegal, []*operation{
			claimed, settle(store.OpExtend, first, gotDone).from(50, 51),
			claim("b", gotStolen, stolen).from(130, 131),
		}},
		"a redrive": {porcupine.Ok,
			[]*operation{claimed, settle(store.OpFail, first, gotDone).from(50, 51),
				redrive(t0, claim("b", gotClaimed, redriven)).from(60, 61)}},
		"a redrive with another token": {porcupine.Illegal,
			[]*operation{claimed, settle(store.OpFail, first, gotDone).from(50, 51),
				redrive(t0+1, claim("b", gotClaimed, redriven)).from(60, 61)}},
		"a redrive that is ignored": {porcupine.Illegal,
			[]*operation{claimed, settle(store.OpFail, first, gotDone).from(50, 51),
				redrive(t0, claim("b", gotFailed, failed)).from(60, 61)}},
		"an entry that is deleted": {porcupine.Ok,
			[]*operation{claimed, remove(t0, gotDone).from(10, 11), get(none).from(20, 21)}},
		"a deletion with another token": {porcupine.Illegal,
			[]*operation{claimed, remove(t0+1, gotDone).from(10, 11)}},
		"an entry that expires":       {porcupine.Ok, []*operation{claimed, get(none).from(2000, 2001)}},
		"an entry that expires early": {porcupine.Illegal, []*operation{claimed, get(none).from(1998, 1999)}},
		"an effect":                   {porcupine.Ok, []*operation{claimed, withEffect(complete), count(1).from(60, 61)}},
		"an effect that is lost": {porcupine.Illegal,
			[]*operation{claimed, withEffect(complete), count(0).from(60, 61)}},
		"an effect that takes place twice": {porcupine.Illegal,
			[]*operation{claimed, withEffect(complete), withEffect(complete).from(60, 61),
				count(2).from(70, 71)}},
		"an effect without its completion": {porcupine.Illegal,
			[]*operation{claimed, withEffect(settle(store.OpComplete, first, gotNothing)).from(50, 51),
				count(1).from(60, 61), get(first).from(70, 71)}},
		"an effect of a completion without an answer": {porcupine.Ok,
			[]*operation{claimed, withEffect(settle(store.OpComplete, first, gotNothing)).from(50, 51),
				count(0).from(60, 61), count(1).from(70, 71)}},
		"an effect that outlives its entry": {porcupine.Ok,
			[]*operation{claimed, withEffect(complete), remove(t0, gotDone).from(60, 61),
				count(1).from(70, 71)}},
		"an effect that ends with its entry": {porcupine.Illegal,
			[]*operation{claimed, withEffect(complete), remove(t0, gotDone).from(60, 61),
				count(0).from(70, 71)}},
		"an effect that does not commit, without cause": {porcupine.Illegal,
			[]*operation{claimed, withEffect(settle(store.OpComplete, first, gotRejected)).from(50, 51)}},
		"contention with another operation": {porcupine.Ok,
			[]*operation{claim("a", gotClaimed, first).from(0, 5), contended("b").from(2, 3)}},
		"contention with nothing": {porcupine.Illegal, []*operation{claimed, contended("b").from(2, 3)}},
		"contention with a request on its way": {porcupine.Ok,
			[]*operation{claimed.sentAgain(), contended("b").from(2, 3)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var ops []operation
			for _, o := range test.ops {
				ops = append(ops, *o)
			}
			if got := check(ops, 20*time.Millisecond); got != test.want {
				t.Errorf("it is %s; want %s", got, test.want)
			}
		})
	}
}

// stolenAgain is the entry after a late request of the first claim on a released key.
func stolenAgain(ms int64, released store.Entry) store.Entry {
	e := stolenAt(ms, "a", released)
	e.RetryAt = time.Time{}
	return e
}

func extendedAt(ms int64, e store.Entry) store.Entry {
	e.UpdatedAt, e.LeaseUntil, e.Expiry = at(ms), at(ms+200), time.UnixMilli(ceil(t0+ms+1200))
	return e
}
