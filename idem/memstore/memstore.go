// Package memstore keeps idempotency state in the memory of one process. It applies the rules of package idem as they
// stand there, under one lock: the reference for every other store, the oracle of their tests, and enough for local runs.
// It protects nothing across processes, nor beyond the life of one.
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

	"github.com/idemsk/idemsk/idem"
)

// Config configures a Store. The zero value is ready for use.
type Config struct {
	// Clock is time.Now if nil.
	Clock idem.Clock
	// MaxClockSkew is added to leases and expiries by contenders. It is 0 by default, as there is only one clock here.
	MaxClockSkew time.Duration
	// BatchSize is what the store says of itself as an idem.Batcher (default 1): it makes the engine gather claims and
	// completions as it does for stores at the other end of a network.
	BatchSize int
}

// Store is a store in memory. It is safe for concurrent use.
type Store struct {
	clock idem.Clock
	skew  time.Duration
	batch int

	mu   sync.Mutex
	recs map[string]*idem.Record
}

var (
	_ idem.Store      = (*Store)(nil)
	_ idem.Batcher    = (*Store)(nil)
	_ idem.Transactor = (*Store)(nil)
	_ idem.Admin      = (*Store)(nil)
)

// New returns an empty store.
func New(cfg Config) *Store {
	return &Store{clock: cfg.Clock, skew: max(0, cfg.MaxClockSkew), batch: max(1, cfg.BatchSize), recs: make(map[string]*idem.Record)}
}

// BatchSize implements idem.Batcher.
func (s *Store) BatchSize() int { return s.batch }

// Claim implements idem.Store.
func (s *Store) Claim(ctx context.Context, reqs []idem.ClaimRequest) []idem.ClaimResult {
	results := make([]idem.ClaimResult, len(reqs))
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

func (s *Store) claim(req *idem.ClaimRequest, now time.Time, res *idem.ClaimResult) {
	seen, ok := s.recs[req.Key]
	if !ok {
		rec := idem.Fresh(req, now)
		s.recs[req.Key] = &rec
		res.State, res.Record = idem.Claimed, rec
		return
	}
	verdict, judged := idem.Judge(req, seen, now, s.skew)
	*res = judged
	switch verdict {
	case idem.VerdictReport:
	case idem.VerdictMismatch:
		res.Err = idem.ErrFingerprintMismatch
	case idem.VerdictTake:
		res.State, res.Stolen = idem.Claimed, idem.Stolen(seen)
		*seen = idem.Take(req, seen, now)
	}
	res.Record = clone(seen)
}

// clone returns a record that is the caller's to change.
func clone(rec *idem.Record) idem.Record {
	c := *rec
	c.Result = bytes.Clone(rec.Result)
	if rec.Failure != nil {
		f := *rec.Failure
		c.Failure = &f
	}
	return c
}

// Settle implements idem.Store.
func (s *Store) Settle(ctx context.Context, ss []idem.Settlement) []error {
	var errs []error
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range ss {
		err := ctx.Err()
		if err == nil {
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

func (s *Store) settle(set *idem.Settlement, now time.Time) error {
	if set.Claim != nil {
		return s.completeUnclaimed(set, now)
	}
	seen, ok := s.recs[set.Key]
	switch {
	case !ok:
		return &idem.FencedError{Key: set.Key, Version: set.Version}
	case idem.Holds(set, seen):
		if err := commit(set.Effect); err != nil {
			return err
		}
		*seen = idem.Settled(set, seen, now)
		seen.Result = bytes.Clone(seen.Result) // the handler's to change
	case !idem.OwnSettlement(set, seen):
		return &idem.FencedError{Key: set.Key, Version: set.Version, Current: clone(seen)}
	}
	return nil
}

// Get implements idem.Admin.
func (s *Store) Get(_ context.Context, key string) (idem.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec, ok := s.recs[key]; ok {
		return clone(rec), nil
	}
	return idem.Record{}, fmt.Errorf("memstore: %w: %q", idem.ErrNotFound, key)
}

// List implements idem.Admin, in the order of keys. It copies the store first.
func (s *Store) List(ctx context.Context, q idem.ListQuery) iter.Seq2[idem.Record, error] {
	return func(yield func(idem.Record, error) bool) {
		now := s.clock.Now()
		for _, rec := range s.snapshot() {
			if err := ctx.Err(); err != nil {
				yield(idem.Record{}, fmt.Errorf("memstore: list: %w", err))
				return
			}
			if q.Matches(&rec, now) && !yield(rec, nil) {
				return
			}
		}
	}
}

func (s *Store) snapshot() []idem.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	recs := make([]idem.Record, 0, len(s.recs))
	for rec := range maps.Values(s.recs) {
		recs = append(recs, clone(rec))
	}
	slices.SortFunc(recs, func(a, b idem.Record) int { return strings.Compare(a.Key, b.Key) })
	return recs
}

// Delete implements idem.Admin.
func (s *Store) Delete(_ context.Context, key string, version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, ok := s.recs[key]
	switch {
	case !ok:
		return fmt.Errorf("memstore: delete: %w: %q", idem.ErrNotFound, key)
	case rec.Version != version:
		return fmt.Errorf("memstore: delete: %w", &idem.FencedError{Key: key, Version: version, Current: clone(rec)})
	}
	delete(s.recs, key)
	return nil
}

// Sweep removes the records whose retention is over, as TTL does in DynamoDB, and returns how many.
func (s *Store) Sweep() int {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.recs)
	maps.DeleteFunc(s.recs, func(_ string, r *idem.Record) bool { return !now.Before(r.Expiry) })
	return before - len(s.recs)
}
