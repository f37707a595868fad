// Package memstore stores idempotency keys in memory. It applies the rules of package store under one lock.
// It is the reference for the other stores, the oracle of their tests, and a store for local runs. It gives
// no protection across processes or restarts.
package memstore

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Config configures a Store. The zero value is ready for use.
type Config struct {
	// Clock is the clock of the store. Default: time.Now.
	Clock store.Clock
	// MaxClockSkew delays the end of leases and expiries for other owners. Default: 0, because there is only
	// one clock.
	MaxClockSkew time.Duration
	// BatchSize is the store's BatchSize as a store.Batcher. With more than 1 the engine groups claims and
	// completions as it does for a remote store. Default: 1.
	BatchSize int
}

// Store is a store in memory. It is safe for concurrent use.
type Store struct {
	clock store.Clock
	skew  time.Duration
	batch int

	mu   sync.Mutex
	recs map[string]*store.Entry
}

var (
	_ store.Store          = (*Store)(nil)
	_ store.Batcher        = (*Store)(nil)
	_ store.CallTransactor = (*Store)(nil)
	_ store.Admin          = (*Store)(nil)
)

// New returns an empty store.
func New(cfg Config) *Store {
	return &Store{clock: cfg.Clock, skew: max(0, cfg.MaxClockSkew), batch: max(1, cfg.BatchSize),
		recs: make(map[string]*store.Entry)}
}

// BatchSize implements store.Batcher.
func (s *Store) BatchSize() int { return s.batch }

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reqs {
		if err := ctx.Err(); err != nil {
			results[i].Err = fmt.Errorf("memstore: claim: %w", err)
			continue
		}
		s.claim(&reqs[i], now, &results[i])
	}
	return results
}

func (s *Store) claim(req *store.ClaimRequest, now time.Time, res *store.ClaimResult) {
	seen, ok := s.recs[req.Key]
	if !ok {
		entry := store.Fresh(req, now)
		s.recs[req.Key] = &entry
		res.State, res.Entry = store.Claimed, clone(&entry)
		return
	}
	verdict, judged := store.Judge(req, seen, now, s.skew)
	*res = judged
	switch verdict {
	case store.VerdictReport:
	case store.VerdictMismatch:
		res.Err = store.ErrFingerprintMismatch
	case store.VerdictTake:
		res.State, res.Stolen = store.Claimed, store.Stolen(seen)
		*seen = store.Take(req, seen, now)
	}
	res.Entry = clone(seen)
}

// clone returns a deep copy of an entry.
func clone(entry *store.Entry) store.Entry {
	c := *entry
	c.Result = bytes.Clone(entry.Result)
	if entry.Failure != nil {
		f := *entry.Failure
		c.Failure = &f
	}
	return c
}

// Settle implements store.Store.
func (s *Store) Settle(ctx context.Context, ss []store.Settlement) []error {
	var errs []error
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls callErrors
	for i := range ss {
		err := ctx.Err()
		switch {
		case err != nil:
		case inCall(&ss[i]):
			err = calls.of(s, ss, i, now)
		default:
			err = s.settle(&ss[i], now)
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(ss))
		}
		errs[i] = fmt.Errorf("memstore: %s: %w", ss[i].Op, err)
	}
	return errs
}

func (s *Store) settle(set *store.Settlement, now time.Time) error {
	applied, err := s.held(set, now)
	if err != nil || applied {
		return err
	}
	if err := commit(set.Effect); err != nil {
		return err
	}
	s.apply(set, now)
	return nil
}

// held returns why a settlement is refused, or whether it was applied before.
func (s *Store) held(set *store.Settlement, now time.Time) (applied bool, err error) {
	seen, ok := s.recs[set.Key]
	switch {
	case !ok:
		return false, &store.FencedError{Key: set.Key, Token: set.Token}
	case store.Holds(set, seen) && !store.Outdated(set, seen, now):
		return false, nil
	case store.OwnSettlement(set, seen):
		return true, nil
	}
	return false, &store.FencedError{Key: set.Key, Token: set.Token, Current: clone(seen)}
}

// apply applies a settlement that is not refused.
func (s *Store) apply(set *store.Settlement, now time.Time) {
	seen := s.recs[set.Key]
	*seen = store.Settled(set, seen, now)
	seen.Result = bytes.Clone(seen.Result) // the handler may change its slice
}

// Get implements store.Admin.
func (s *Store) Get(_ context.Context, key string) (store.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if entry, ok := s.recs[key]; ok {
		return clone(entry), nil
	}
	return store.Entry{}, fmt.Errorf("memstore: %w: %q", store.ErrNotFound, key)
}

// List implements store.Admin. It copies the store first and yields entries in the order of their keys.
func (s *Store) List(ctx context.Context, q store.ListQuery) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		now := s.clock.Now()
		for _, entry := range s.snapshot() {
			if err := ctx.Err(); err != nil {
				yield(store.Entry{}, fmt.Errorf("memstore: list: %w", err))
				return
			}
			if q.Matches(&entry, now) && !yield(entry, nil) {
				return
			}
		}
	}
}

func (s *Store) snapshot() []store.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	recs := make([]store.Entry, 0, len(s.recs))
	for entry := range maps.Values(s.recs) {
		recs = append(recs, clone(entry))
	}
	slices.SortFunc(recs, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	return recs
}

// Delete implements store.Admin.
func (s *Store) Delete(_ context.Context, key string, token int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry, ok := s.recs[key]
	switch {
	case !ok:
		return fmt.Errorf("memstore: delete: %w: %q", store.ErrNotFound, key)
	case entry.Token != token:
		return fmt.Errorf("memstore: delete: %w",
			&store.FencedError{Key: key, Token: token, Current: clone(entry)})
	}
	delete(s.recs, key)
	return nil
}

// Sweep deletes the expired entries, as TTL does in DynamoDB, and returns their number.
func (s *Store) Sweep() int {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.recs)
	maps.DeleteFunc(s.recs, func(_ string, r *store.Entry) bool { return !now.Before(r.Expiry) })
	return before - len(s.recs)
}
