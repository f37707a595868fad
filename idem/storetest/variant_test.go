package storetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// variant is a store that reads and writes in two steps, as a remote store does. Each of its rules can be
// replaced. With the rules of package store it conforms.
type variant struct {
	rules
	clock *storetest.Clock
	skew  time.Duration

	mu        sync.Mutex
	recs      map[string]store.Entry
	counts    map[string]int // the effects
	interpose func()
}

// rules are the replaceable rules of a variant.
type rules struct {
	absent     func(found bool) bool // the condition of a fresh claim
	mismatched func(entry *store.Entry)
	shown      func(current store.Entry) store.Entry // in a refusal
	fresh      func(req *store.ClaimRequest, now time.Time) store.Entry
	judge      func(req *store.ClaimRequest, seen *store.Entry, now time.Time,
		skew time.Duration) (store.Verdict, store.ClaimResult)
	asSeen  func(seen, now *store.Entry) bool // the condition of a take-over
	take    func(req *store.ClaimRequest, seen *store.Entry, now time.Time) store.Entry
	holds   func(s *store.Settlement, seen *store.Entry) bool // the condition of a settlement
	own     func(s *store.Settlement, seen *store.Entry) bool
	settled func(s *store.Settlement, seen *store.Entry, now time.Time) store.Entry
	swept   func(entry *store.Entry, now time.Time) bool
	matches func(q store.ListQuery, entry *store.Entry, now time.Time) bool
	deletes func(entry *store.Entry, token int64) bool
	copied  func(entry store.Entry) store.Entry
	ended   func(ctx context.Context) error
	committing
}

func goodRules() rules {
	return rules{
		absent:     func(found bool) bool { return !found },
		mismatched: func(*store.Entry) {},
		shown:      deepCopy,
		fresh:      store.Fresh,
		judge:      store.Judge,
		asSeen:     func(seen, now *store.Entry) bool { return storetest.Diff(*seen, *now) == "" },
		take:       store.Take,
		holds:      store.Holds,
		own:        store.OwnSettlement,
		settled:    store.Settled,
		swept:      func(entry *store.Entry, now time.Time) bool { return !now.Before(entry.Expiry) },
		matches: func(q store.ListQuery, entry *store.Entry,
			now time.Time) bool {
			return q.Matches(entry, now)
		},
		deletes:    func(entry *store.Entry, token int64) bool { return entry.Token == token },
		copied:     deepCopy,
		ended:      context.Context.Err,
		committing: goodCommits(),
	}
}

func deepCopy(entry store.Entry) store.Entry {
	entry.Result = slices.Clone(entry.Result)
	if entry.Failure != nil {
		f := *entry.Failure
		entry.Failure = &f
	}
	return entry
}

func newVariant(r rules, skew time.Duration) *variant {
	return &variant{rules: r, clock: storetest.NewClock(), skew: skew, recs: map[string]store.Entry{},
		counts: map[string]int{}}
}

func (v *variant) harness() storetest.Harness {
	again := &storetest.Resender{Store: v, Admin: v}
	return storetest.Harness{
		Store: again, Now: v.clock.Now, Advance: v.clock.Advance, Skew: v.skew, LoseReply: again.Arm,
		Interpose: func(f func()) { v.interpose = f },
		Effects:   v.effects(),
		Raw: func(t testing.TB, key string) []byte {
			entry, ok := v.look(key)
			if !ok {
				return nil
			}
			raw, err := json.Marshal(entry)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		Sweep: func(testing.TB) {
			now := v.clock.Now()
			maps.DeleteFunc(v.recs, func(_ string, entry store.Entry) bool { return v.swept(&entry, now) })
		},
	}
}

func (v *variant) look(key string) (store.Entry, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry, ok := v.recs[key]
	return v.copied(entry), ok
}

// write replaces an entry under a condition.
func (v *variant) write(next store.Entry, condition func(now *store.Entry, found bool) bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, found := v.recs[next.Key]
	if !condition(&now, found) {
		return false
	}
	v.recs[next.Key] = next
	return true
}

func (v *variant) touch(key string, f func(entry *store.Entry)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if entry, ok := v.recs[key]; ok {
		f(&entry)
		v.recs[key] = entry
	}
}

// gap is called between a read and a write.
func (v *variant) gap(taking bool) {
	runtime.Gosched()
	if f := v.interpose; taking && f != nil {
		v.interpose = nil
		f()
	}
}

// Claim implements store.Store.
func (v *variant) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	for i := range reqs {
		if err := v.ended(ctx); err != nil {
			results[i].Err = fmt.Errorf("variant: %w", err)
			continue
		}
		results[i] = v.claim(&reqs[i])
	}
	return results
}

func (v *variant) claim(req *store.ClaimRequest) store.ClaimResult {
	for {
		now := v.clock.Now()
		seen, found := v.look(req.Key)
		if !found {
			v.gap(false)
			entry := v.fresh(req, now)
			if v.write(entry, func(_ *store.Entry, found bool) bool { return v.absent(found) }) {
				return store.ClaimResult{State: store.Claimed, Entry: v.copied(entry)}
			}
			continue
		}
		verdict, res := v.judge(req, &seen, now, v.skew)
		switch verdict {
		case store.VerdictReport:
			return res
		case store.VerdictMismatch:
			v.touch(req.Key, v.mismatched)
			res.Err = store.ErrFingerprintMismatch
			return res
		case store.VerdictTake:
		}
		v.gap(true)
		entry := v.take(req, &seen, now)
		if v.write(entry, func(now *store.Entry, found bool) bool { return found && v.asSeen(&seen, now) }) {
			return store.ClaimResult{State: store.Claimed, Entry: v.copied(entry),
				Stolen: store.Stolen(&seen)}
		}
	}
}

// Settle implements store.Store.
func (v *variant) Settle(ctx context.Context, ss []store.Settlement) []error {
	errs := make([]error, len(ss))
	calls := make(map[*counted]bool) // that are settled
	for i := range ss {
		switch e, ok := ss[i].Effect.(*counted); {
		case v.ended(ctx) != nil:
			errs[i] = v.ended(ctx)
		case !ok || !e.call:
			errs[i] = v.settle(&ss[i])
		case !calls[e]:
			calls[e] = true
			v.settleCall(ss, e, errs)
		}
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return errs
	}
	return nil
}

func (v *variant) settle(set *store.Settlement) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	seen, found := v.recs[set.Key]
	held := found && v.holds(set, &seen)
	if err := v.commit(set, held || (v.repeats && found && v.own(set, &seen))); err != nil && held {
		return err
	}
	switch {
	case held:
		v.recs[set.Key] = v.copied(v.settled(set, &seen, v.clock.Now()))
	case !found || !v.own(set, &seen):
		return &store.FencedError{Key: set.Key, Token: set.Token, Current: v.shown(seen)}
	}
	return nil
}

// Get implements store.Admin.
func (v *variant) Get(_ context.Context, key string) (store.Entry, error) {
	entry, ok := v.look(key)
	if !ok {
		return entry, fmt.Errorf("variant: %w: %q", store.ErrNotFound, key)
	}
	return entry, nil
}

// List implements store.Admin.
func (v *variant) List(_ context.Context, q store.ListQuery) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(v.recs)) {
			if entry := v.recs[key]; v.matches(q, &entry, v.clock.Now()) && !yield(v.copied(entry), nil) {
				return
			}
		}
	}
}

// Delete implements store.Admin.
func (v *variant) Delete(_ context.Context, key string, token int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	entry, found := v.recs[key]
	switch {
	case !found:
		return fmt.Errorf("variant: %w: %q", store.ErrNotFound, key)
	case !v.deletes(&entry, token):
		return &store.FencedError{Key: key, Token: token, Current: v.copied(entry)}
	}
	delete(v.recs, key)
	return nil
}
