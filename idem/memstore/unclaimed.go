package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Look implements store.Ranger.
func (s *Store) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reqs {
		if err := ctx.Err(); err != nil {
			results[i].Err = fmt.Errorf("memstore: look: %w", err)
		} else if seen, ok := s.recs[reqs[i].Key]; ok {
			results[i] = s.answer(&reqs[i], seen, now)
		} else {
			results[i] = store.Absent(now)
		}
	}
	return results
}

// answer returns the answer to a claim that writes nothing.
func (s *Store) answer(req *store.ClaimRequest, seen *store.Entry, now time.Time) store.ClaimResult {
	verdict, res := store.Judge(req, seen, now, s.skew)
	if verdict == store.VerdictMismatch {
		res.Err = store.ErrFingerprintMismatch
	}
	res.Entry = clone(seen)
	return res
}
