package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/store"
)

// AgreesWith runs random histories (claims, settlements by current and former owners, time, TTL, deletions)
// on two stores with one clock, and checks that both return the same answers and store the same entries. open
// returns new, empty stores for each call.
func AgreesWith(t *testing.T, open func(t *rapid.T) (under, oracle Harness)) {
	t.Helper()
	histories := 0
	rapid.Check(t, func(rt *rapid.T) {
		under, oracle := open(rt)
		if histories++; histories <= maxTracedHistories {
			under = traced(t, under)
		}
		h := &history{t: rt, ctx: t.Context(), tb: t, under: under, oracle: oracle}
		rt.Repeat(map[string]func(*rapid.T){
			"claim":   h.claim,
			"settle":  h.settle,
			"advance": h.advance,
			"sweep":   h.sweep,
			"delete":  h.delete,
			"":        h.same,
		})
	})
}

// history is one random history.
type history struct {
	t             *rapid.T
	tb            testing.TB
	ctx           context.Context
	under, oracle Harness
	claims        []store.Entry // all claims: of current and of former owners
	owners        int
}

// historyKeys are the keys of a history.
var historyKeys = []string{"a", "b", "c"}

// claim claims some keys.
func (h *history) claim(t *rapid.T) {
	n := rapid.IntRange(1, len(historyKeys)).Draw(t, "batch")
	var reqs []store.ClaimRequest
	for _, k := range rapid.Permutation(historyKeys).Draw(t, "keys")[:n] {
		h.owners++
		reqs = append(reqs, store.ClaimRequest{
			Key: k, Owner: fmt.Sprint("o", h.owners), Source: fmt.Sprint("t-0@", h.owners), Lease: lease,
			Retention: retention,
			Fingerprint: rapid.SampledFrom([]store.Fingerprint{{}, {1}, {1}, {1}, {2}}).Draw(t,
				"fingerprint"),
			TakeOver:     rapid.Bool().Draw(t, "take over"),
			RedriveToken: h.someToken(t),
		})
		if again := h.someClaim(t); again != nil && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
			// a retried request
			reqs[len(reqs)-1].Owner = again.Owner
		}
	}
	got, want := h.under.Store.Claim(h.ctx, reqs), h.oracle.Store.Claim(h.ctx, reqs)
	for i := range reqs {
		h.sameResult(t, reqs[i], got[i], want[i])
		if want[i].State == store.Claimed {
			h.claims = append(h.claims, want[i].Entry)
		}
	}
}

func (h *history) sameResult(t *rapid.T, req store.ClaimRequest, got, want store.ClaimResult) {
	t.Helper()
	if got.State != want.State || got.Stolen != want.Stolen || got.ClaimableIn != want.ClaimableIn ||
		errors.Is(got.Err, store.ErrFingerprintMismatch) != (want.Err != nil) ||
		Diff(got.Entry, want.Entry) != "" {
		t.Fatalf("claim %+v:\ngot  %+v\nwant %+v\n%s", req, got, want, Diff(got.Entry, want.Entry))
	}
}

func (h *history) someClaim(t *rapid.T) *store.Entry {
	if len(h.claims) == 0 {
		return nil
	}
	return &h.claims[rapid.IntRange(max(0, len(h.claims)-8), len(h.claims)-1).Draw(t, "claim")]
}

func (h *history) someToken(t *rapid.T) int64 {
	if c := h.someClaim(t); c != nil && rapid.Bool().Draw(t, "redrive") {
		return c.Token
	}
	return 0
}

// someHolder mostly returns the latest owner of a key, because other owners are refused.
func (h *history) someHolder(t *rapid.T) *store.Entry {
	if rapid.IntRange(0, 3).Draw(t, "anybody") == 0 {
		return h.someClaim(t)
	}
	k := rapid.SampledFrom(historyKeys).Draw(t, "holder of")
	for i := range slices.Backward(h.claims) {
		if h.claims[i].Key == k {
			return &h.claims[i]
		}
	}
	return nil
}

func (h *history) settle(t *rapid.T) {
	c := h.someHolder(t)
	if c == nil {
		return
	}
	set := settlement(*c, rapid.SampledFrom(allOps()).Draw(t, "op"))
	switch set.Op {
	case store.OpComplete:
		set.ResultOmitted = rapid.SampledFrom([]int{0, 5000}).Draw(t, "omitted")
	case store.OpRelease:
		set.Refund = rapid.Bool().Draw(t, "refund")
		set.Delay = time.Duration(rapid.IntRange(0, 60_000).Draw(t, "delay ms")) * time.Millisecond
		if rapid.Bool().Draw(t, "no failure") {
			set.Failure = nil
		}
	case store.OpFail:
	case store.OpExtend:
		set.Lease = time.Duration(rapid.IntRange(1, 120_000).Draw(t, "lease ms")) * time.Millisecond
	}
	ss := []store.Settlement{set}
	got, want := errors.Join(h.under.Store.Settle(h.ctx, ss)...), errors.Join(h.oracle.Store.Settle(h.ctx, ss)...)
	if errors.Is(got, store.ErrFenced) != errors.Is(want, store.ErrFenced) || (got == nil) != (want == nil) {
		t.Fatalf("%+v:\ngot  %v\nwant %v", set, got, want)
	}
}

func (h *history) advance(t *rapid.T) {
	around := rapid.SampledFrom([]time.Duration{0, lease, lease + h.under.Skew, retention,
		lease + retention}).Draw(t, "to about")
	d := max(0, around+time.Duration(rapid.IntRange(-1500, 1500).Draw(t, "ms"))*time.Millisecond)
	h.under.Advance(d)
	h.oracle.Advance(d)
}

func (h *history) sweep(*rapid.T) {
	h.under.Sweep(h.tb)
	h.oracle.Sweep(h.tb)
}

func (h *history) delete(t *rapid.T) {
	c := h.someClaim(t)
	if c == nil || rapid.IntRange(0, 4).Draw(t, "delete") > 0 {
		return
	}
	got, want := adminOf(h.tb, h.under).Delete(h.ctx, c.Key, c.Token), adminOf(h.tb, h.oracle).Delete(h.ctx,
		c.Key, c.Token)
	if (got == nil) != (want == nil) || errors.Is(got, store.ErrNotFound) != errors.Is(want,
		store.ErrNotFound) {
		t.Fatalf("delete %q token %d:\ngot  %v\nwant %v", c.Key, c.Token, got, want)
	}
}

// same compares the entries of both stores after every step.
func (h *history) same(t *rapid.T) {
	for _, k := range historyKeys {
		got, gotErr := adminOf(h.tb, h.under).Get(h.ctx, k)
		want, wantErr := adminOf(h.tb, h.oracle).Get(h.ctx, k)
		if (gotErr == nil) != (wantErr == nil) || Diff(got, want) != "" {
			t.Fatalf("%q:\ngot  %+v (%v)\nwant %+v (%v)\n%s", k, got, gotErr, want, wantErr, Diff(got, want))
		}
	}
}

func adminOf(tb testing.TB, h Harness) store.Admin {
	tb.Helper()
	a, ok := h.Store.(store.Admin)
	if !ok {
		tb.Fatalf("%T does not implement store.Admin", h.Store)
	}
	return a
}
