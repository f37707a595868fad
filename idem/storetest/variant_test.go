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

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/storetest"
)

// variant is a store that looks and writes in two steps, as a remote one does, and whose every rule can be exchanged. With
// the rules of package idem it is a good store.
type variant struct {
	rules
	clock *storetest.Clock
	skew  time.Duration

	mu        sync.Mutex
	recs      map[string]idem.Record
	counts    map[string]int // the effects
	interpose func()
}

// rules are the places at which a variant can be broken.
type rules struct {
	absent     func(found bool) bool // the condition of a fresh claim
	mismatched func(rec *idem.Record)
	shown      func(current idem.Record) idem.Record // in a refusal
	fresh      func(req *idem.ClaimRequest, now time.Time) idem.Record
	judge      func(req *idem.ClaimRequest, seen *idem.Record, now time.Time, skew time.Duration) (idem.Verdict, idem.ClaimResult)
	asSeen     func(seen, now *idem.Record) bool // the condition of a take-over
	take       func(req *idem.ClaimRequest, seen *idem.Record, now time.Time) idem.Record
	holds      func(s *idem.Settlement, seen *idem.Record) bool // the condition of a settlement
	own        func(s *idem.Settlement, seen *idem.Record) bool
	settled    func(s *idem.Settlement, seen *idem.Record, now time.Time) idem.Record
	swept      func(rec *idem.Record, now time.Time) bool
	matches    func(q idem.ListQuery, rec *idem.Record, now time.Time) bool
	deletes    func(rec *idem.Record, version int64) bool
	copied     func(rec idem.Record) idem.Record
	ended      func(ctx context.Context) error
	committing
}

func goodRules() rules {
	return rules{
		absent:     func(found bool) bool { return !found },
		mismatched: func(*idem.Record) {},
		shown:      deepCopy,
		fresh:      idem.Fresh,
		judge:      idem.Judge,
		asSeen:     func(seen, now *idem.Record) bool { return storetest.Diff(*seen, *now) == "" },
		take:       idem.Take,
		holds:      idem.Holds,
		own:        idem.OwnSettlement,
		settled:    idem.Settled,
		swept:      func(rec *idem.Record, now time.Time) bool { return !now.Before(rec.Expiry) },
		matches:    func(q idem.ListQuery, rec *idem.Record, now time.Time) bool { return q.Matches(rec, now) },
		deletes:    func(rec *idem.Record, version int64) bool { return rec.Version == version },
		copied:     deepCopy,
		ended:      context.Context.Err,
		committing: goodCommits(),
	}
}

func deepCopy(rec idem.Record) idem.Record {
	rec.Result = slices.Clone(rec.Result)
	if rec.Failure != nil {
		f := *rec.Failure
		rec.Failure = &f
	}
	return rec
}

func newVariant(r rules, skew time.Duration) *variant {
	return &variant{rules: r, clock: storetest.NewClock(), skew: skew, recs: map[string]idem.Record{}, counts: map[string]int{}}
}

func (v *variant) harness() storetest.Harness {
	again := &storetest.Resender{Store: v, Admin: v}
	return storetest.Harness{
		Store: again, Now: v.clock.Now, Advance: v.clock.Advance, Skew: v.skew, LoseReply: again.Arm,
		Interpose: func(f func()) { v.interpose = f },
		Effects:   v.effects(),
		Raw: func(t testing.TB, key string) []byte {
			rec, ok := v.look(key)
			if !ok {
				return nil
			}
			raw, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		},
		Sweep: func(testing.TB) {
			now := v.clock.Now()
			maps.DeleteFunc(v.recs, func(_ string, rec idem.Record) bool { return v.swept(&rec, now) })
		},
	}
}

func (v *variant) look(key string) (idem.Record, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	rec, ok := v.recs[key]
	return v.copied(rec), ok
}

// write replaces a record under a condition.
func (v *variant) write(next idem.Record, condition func(now *idem.Record, found bool) bool) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	now, found := v.recs[next.Key]
	if !condition(&now, found) {
		return false
	}
	v.recs[next.Key] = next
	return true
}

func (v *variant) touch(key string, f func(rec *idem.Record)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if rec, ok := v.recs[key]; ok {
		f(&rec)
		v.recs[key] = rec
	}
}

// gap is the time between a look and a write.
func (v *variant) gap(taking bool) {
	runtime.Gosched()
	if f := v.interpose; taking && f != nil {
		v.interpose = nil
		f()
	}
}

// Claim implements idem.Store.
func (v *variant) Claim(ctx context.Context, reqs []idem.ClaimRequest) []idem.ClaimResult {
	results := make([]idem.ClaimResult, len(reqs))
	for i := range reqs {
		if err := v.ended(ctx); err != nil {
			results[i].Err = fmt.Errorf("variant: %w", err)
			continue
		}
		results[i] = v.claim(&reqs[i])
	}
	return results
}

func (v *variant) claim(req *idem.ClaimRequest) idem.ClaimResult {
	for {
		now := v.clock.Now()
		seen, found := v.look(req.Key)
		if !found {
			v.gap(false)
			rec := v.fresh(req, now)
			if v.write(rec, func(_ *idem.Record, found bool) bool { return v.absent(found) }) {
				return idem.ClaimResult{State: idem.Claimed, Record: v.copied(rec)}
			}
			continue
		}
		verdict, res := v.judge(req, &seen, now, v.skew)
		switch verdict {
		case idem.VerdictReport:
			return res
		case idem.VerdictMismatch:
			v.touch(req.Key, v.mismatched)
			res.Err = idem.ErrFingerprintMismatch
			return res
		case idem.VerdictTake:
		}
		v.gap(true)
		rec := v.take(req, &seen, now)
		if v.write(rec, func(now *idem.Record, found bool) bool { return found && v.asSeen(&seen, now) }) {
			return idem.ClaimResult{State: idem.Claimed, Record: v.copied(rec), Stolen: idem.Stolen(&seen)}
		}
	}
}

// Settle implements idem.Store.
func (v *variant) Settle(ctx context.Context, ss []idem.Settlement) []error {
	errs := make([]error, len(ss))
	for i := range ss {
		if errs[i] = v.ended(ctx); errs[i] == nil {
			errs[i] = v.settle(&ss[i])
		}
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return errs
	}
	return nil
}

func (v *variant) settle(set *idem.Settlement) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if set.Claim != nil {
		return v.completeUnclaimed(set)
	}
	seen, found := v.recs[set.Key]
	held := found && v.holds(set, &seen)
	if err := v.commit(set, held || (v.repeats && found && v.own(set, &seen))); err != nil && held {
		return err
	}
	switch {
	case held:
		v.recs[set.Key] = v.copied(v.settled(set, &seen, v.clock.Now()))
	case !found || !v.own(set, &seen):
		return &idem.FencedError{Key: set.Key, Version: set.Version, Current: v.shown(seen)}
	}
	return nil
}

// Get implements idem.Admin.
func (v *variant) Get(_ context.Context, key string) (idem.Record, error) {
	rec, ok := v.look(key)
	if !ok {
		return rec, fmt.Errorf("variant: %w: %q", idem.ErrNotFound, key)
	}
	return rec, nil
}

// List implements idem.Admin.
func (v *variant) List(_ context.Context, q idem.ListQuery) iter.Seq2[idem.Record, error] {
	return func(yield func(idem.Record, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(v.recs)) {
			if rec := v.recs[key]; v.matches(q, &rec, v.clock.Now()) && !yield(v.copied(rec), nil) {
				return
			}
		}
	}
}

// Delete implements idem.Admin.
func (v *variant) Delete(_ context.Context, key string, version int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	rec, found := v.recs[key]
	switch {
	case !found:
		return fmt.Errorf("variant: %w: %q", idem.ErrNotFound, key)
	case !v.deletes(&rec, version):
		return &idem.FencedError{Key: key, Version: version, Current: v.copied(rec)}
	}
	delete(v.recs, key)
	return nil
}
