package dynamostore

import (
	"context"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Look implements store.Ranger by consistent reads of 100 keys a request. A key costs a read unit for each 4
// KB of its item, and one if it is absent.
func (s *Store) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := make([]store.ClaimResult, len(reqs))
	keys := make([]open, len(reqs))
	for i := range keys {
		keys[i].i = i
	}
	for _, key := range s.read(ctx, reqs, keys, results) {
		if key.seen != nil {
			results[key.i], _ = s.judge(&reqs[key.i], key.seen)
		} else {
			results[key.i] = store.Absent(s.clock.Now())
		}
	}
	return results
}

// maxLeases is the maximum number of leases that a store remembers. A process has one lease for each
// partition that it handles.
const maxLeases = 1000

// leases are the leases of ranges that a store has claimed, as it last claimed or released them. So the claim
// of a lease that the store has released begins with the take-over of a known entry: one write, and no read.
// The write is conditional on that entry. If it is outdated, the refused write returns the current entry.
type leases struct {
	mu      sync.Mutex
	entries map[string]store.Entry
}

// known returns the entry of a lease as the store last wrote it, if the claim may take it.
func (s *Store) known(req *store.ClaimRequest) *store.Entry {
	if req.Range == nil {
		return nil
	}
	entry, ok := s.leases.get(req.Key)
	if !ok {
		return nil
	}
	if _, final := s.judge(req, &entry); final {
		return nil
	}
	return &entry
}

// claimed remembers the leases that were claimed.
func (l *leases) claimed(reqs []store.ClaimRequest, results []store.ClaimResult) {
	for i := range reqs {
		if reqs[i].Range != nil && results[i].State == store.Claimed {
			l.put(results[i].Entry)
		}
	}
}

// extending forgets the leases whose range is about to be written: its end may change without a change of
// what a take-over is conditional on.
func (l *leases) extending(ss []store.Settlement) {
	for i := range ss {
		if ss[i].Op == store.OpExtend && ss[i].Range != nil {
			l.mu.Lock()
			delete(l.entries, ss[i].Key)
			l.mu.Unlock()
		}
	}
}

// settled remembers a lease that was released.
func (l *leases) settled(set *store.Settlement, now time.Time) {
	if set.Op != store.OpRelease || set.Range == nil {
		return
	}
	if held, ok := l.get(set.Key); ok {
		l.put(store.Settled(set, &held, now))
	}
}

func (l *leases) get(key string) (store.Entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, ok := l.entries[key]
	return entry, ok
}

// put remembers an entry. If there are too many, all others are forgotten.
func (l *leases) put(entry store.Entry) {
	if entry.Failure != nil { // a caller may change the entry that it got
		f := *entry.Failure
		entry.Failure = &f
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.entries[entry.Key]; l.entries == nil || !there && len(l.entries) >= maxLeases {
		l.entries = make(map[string]store.Entry)
	}
	l.entries[entry.Key] = entry
}
