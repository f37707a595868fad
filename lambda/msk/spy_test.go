package msk_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// spy is a memory store that records its requests and lets a test intervene: land passes the request on.
type spy struct {
	*memstore.Store

	mu      sync.Mutex
	onClaim func(ctx context.Context, req *store.ClaimRequest,
		land func() store.ClaimResult) store.ClaimResult
	onSettle func(ctx context.Context, set *store.Settlement, land func() error) error
	claims   []store.ClaimRequest
	settled  []store.Settlement
	calls    []int // the sizes of the calls of Claim
}

// Claim implements store.Store.
func (s *spy) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	s.mu.Lock()
	s.claims = append(s.claims, reqs...)
	s.calls = append(s.calls, len(reqs))
	on := s.onClaim
	s.mu.Unlock()
	if on == nil {
		return s.Store.Claim(ctx, reqs)
	}
	results := make([]store.ClaimResult, len(reqs))
	for i := range reqs {
		results[i] = on(ctx, &reqs[i], func() store.ClaimResult { return s.Store.Claim(ctx, reqs[i:i+1])[0] })
	}
	return results
}

// Settle implements store.Store.
func (s *spy) Settle(ctx context.Context, ss []store.Settlement) []error {
	s.mu.Lock()
	s.settled = append(s.settled, ss...)
	on := s.onSettle
	s.mu.Unlock()
	if on == nil {
		return s.Store.Settle(ctx, ss)
	}
	errs := make([]error, len(ss))
	for i := range ss {
		errs[i] = on(ctx, &ss[i], func() error {
			if errs := s.Store.Settle(ctx, ss[i:i+1]); errs != nil {
				return errs[0]
			}
			return nil
		})
	}
	return errs
}

// claimed counts the claims on a key.
func (s *spy) claimed(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.claims),
		func(r store.ClaimRequest) bool { return r.Key != key }))
}

// count counts the settlements of one kind.
func (s *spy) count(op store.SettleOp) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(s.settled),
		func(set store.Settlement) bool { return set.Op != op }))
}

// down makes every claim fail.
func (s *spy) down(err error) {
	s.onClaim = func(context.Context, *store.ClaimRequest, func() store.ClaimResult) store.ClaimResult {
		return store.ClaimResult{Err: err}
	}
}

// losing makes settlements of the kinds given fail.
func (s *spy) losing(err error, ops ...store.SettleOp) {
	s.onSettle = func(_ context.Context, set *store.Settlement, land func() error) error {
		if slices.Contains(ops, set.Op) {
			return err
		}
		return land()
	}
}

// up ends the failures.
func (s *spy) up() { s.onClaim, s.onSettle = nil, nil }

// hold claims a key for another owner, which does not settle it.
// die makes another owner's attempts at a key begin and not end. The last lease is over when a minute has passed.
func (s *spy) die(key string, attempts int) {
	for n := range attempts {
		req := elsewhere(key, time.Second)
		req.Owner, req.TakeOver = fmt.Sprint("dead owner ", n), true
		s.hold(req)
		pass(time.Minute)
	}
}

func (s *spy) hold(req store.ClaimRequest) store.ClaimResult {
	if req.Owner == "" {
		req.Owner = "another owner"
	}
	return s.Store.Claim(context.Background(), []store.ClaimRequest{req})[0]
}
