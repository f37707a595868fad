package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/store"
)

func (h *history) claimLeases(t *rapid.T) {
	n := rapid.IntRange(1, len(leaseKeys)).Draw(t, "leases")
	var reqs []store.ClaimRequest
	for _, k := range rapid.Permutation(leaseKeys).Draw(t, "lease keys")[:n] {
		h.owners++
		reqs = append(reqs, store.ClaimRequest{
			Key: k, Owner: fmt.Sprint("o", h.owners), Source: fmt.Sprint("p-0@", h.owners), Lease: lease,
			Retention: retention,
			TakeOver:  rapid.Bool().Draw(t, "take over"),
			Range:     &store.Range{End: h.somePosition(t, "end")},
		})
	}
	if rapid.Bool().Draw(t, "keys too") {
		reqs = append(reqs, h.someRequests(t, insertedKeys)...)
	}
	h.claimAll(t, reqs)
}

func (h *history) somePosition(t *rapid.T, name string) int64 {
	return rapid.Int64Range(0, 20).Draw(t, name)
}

// settleLease releases or extends a lease, mostly by its latest owner.
func (h *history) settleLease(t *rapid.T) {
	k := rapid.SampledFrom(leaseKeys).Draw(t, "holder of")
	former := rapid.IntRange(0, 3).Draw(t, "former owner") == 0
	for _, c := range slices.Backward(h.claims) {
		if c.Key != k {
			continue
		}
		if former {
			former = false
			continue
		}
		set := release(c, h.somePosition(t, "till"))
		set.Refund = rapid.Bool().Draw(t, "refund")
		if rapid.Bool().Draw(t, "extend") {
			set = extension(c, h.somePosition(t, "end"),
				time.Duration(rapid.IntRange(1, 120_000).Draw(t, "lease ms"))*time.Millisecond)
			set.Range.Till = h.somePosition(t, "till")
		}
		h.settleAll(t, []store.Settlement{set})
		return
	}
}

func (h *history) look(t *rapid.T) {
	reqs := h.someRequests(t, insertedKeys)
	got, want := h.under.Ranger.Look(h.ctx, reqs), h.oracle.Ranger.Look(h.ctx, reqs)
	for i := range reqs {
		h.sameResult(t, reqs[i], got[i], want[i])
	}
}

// insert settles the keys of some claims that were not sent, or sends such a settlement again.
func (h *history) insert(t *rapid.T) {
	ss := h.inserted
	if len(ss) == 0 || rapid.IntRange(0, 3).Draw(t, "again") > 0 {
		ss = nil
		token := store.FreshToken(h.oracle.Now()) + h.somePosition(t, "token")
		for _, req := range h.someRequests(t, insertedKeys) {
			op := rapid.SampledFrom(insertingOps()).Draw(t, "op")
			set := settlement(store.Entry{Key: req.Key, Token: token, Owner: req.Owner}, op)
			req.Token = token
			if set.Claim = &req; op == store.OpRelease {
				set.Refund = rapid.Bool().Draw(t, "refund")
				set.Delay = time.Duration(rapid.IntRange(0, 60).Draw(t, "delay s")) * time.Second
			}
			ss = append(ss, set)
		}
		h.inserted = ss
	}
	h.settleAll(t, ss)
}

// settleAll compares the answers to settlements.
func (h *history) settleAll(t *rapid.T, ss []store.Settlement) {
	got, want := h.under.Store.Settle(h.ctx, ss), h.oracle.Store.Settle(h.ctx, ss)
	for i := range ss {
		h.sameAnswer(t, ss[i], at(got, i), at(want, i))
	}
}

func at(errs []error, i int) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[i]
}

func (h *history) sameAnswer(t *rapid.T, set store.Settlement, got, want error) {
	t.Helper()
	if errors.Is(got, store.ErrFenced) != errors.Is(want, store.ErrFenced) || (got == nil) != (want == nil) {
		t.Fatalf("%+v:\ngot  %v\nwant %v", set, got, want)
	}
	var gotRefused, wantRefused *store.ClaimRefusedError
	if !errors.As(want, &wantRefused) {
		return
	}
	if !errors.As(got, &gotRefused) {
		t.Fatalf("%+v:\ngot  %v\nwant %v", set, got, want)
	}
	h.sameResult(t, *set.Claim, gotRefused.Result, wantRefused.Result)
}
