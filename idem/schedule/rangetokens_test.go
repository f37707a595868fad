package schedule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// The lease of a partition is held for days. A record has the time and the token of its own beginning, and
// not those of the lease: its age counts from then, and its token is greater than each one that its key had
// before the retention.
func TestStreamGivesEachRecordItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a", "a", "b"})
		var tokens []int64
		m.handle = func(ctx context.Context, key string) error {
			a, _ := idem.AttemptFrom(ctx)
			if key == "a" {
				tokens = append(tokens, a.Token)
			}
			if len(tokens) == 1 {
				return errors.New("once")
			}
			return nil
		}
		const retention = time.Hour
		s := m.start(idem.Config{ClaimByPartition: true, Retention: retention})
		s.add(0, 0, 1)
		pass(2 * retention)
		equal(t, "expired entries", m.store.Sweep(), 1)
		added := time.Now()
		s.add(0, 1, 3)
		pass(time.Minute)
		s.wantEnd("a Executed", "a Executed", "b Executed")
		if !slices.IsSorted(tokens) || len(slices.Compact(tokens)) != 3 {
			t.Errorf("tokens %v; want them to grow", tokens)
		}
		for _, key := range []string{"a", "b"} {
			if entry := m.get(key); entry.CreatedAt.Before(added) {
				t.Errorf("the entry of %s was created at %v, %v before its record was there", key,
					entry.CreatedAt, added.Sub(entry.CreatedAt))
			}
		}
	})
}

// A process that stands still between the read of a key and its handler gives the key no token of a time
// after its lease: the next owner's is greater.
func TestStreamGivesNoTokenOfATimeAfterItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMembers(t, []string{"a"})
		s := m.byPartition()
		r := &idem.Range{Key: "ns%t-0"}
		e, err := idem.New(ahead{m.store}, idem.Config{ClaimByPartition: true, Lease: rangeLease})
		if err != nil {
			t.Fatal(err)
		}
		session := e.Session(t.Context())
		defer session.Close()
		session.HoldRange(r, 0)
		claim := &idem.Claim{Task: idem.Task{Key: "a",
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				a, _ := idem.AttemptFrom(ctx)
				if end := m.get("ns%t-0").LeaseUntil; a.Token > end.UnixMilli() {
					t.Errorf("token %d; the lease ends at %d", a.Token, end.UnixMilli())
				}
				return nil, nil
			})}}
		claim.Enter(r)
		session.LookUp([]*idem.Claim{claim})
		equal(t, "outcome", session.Run(claim).Kind, idem.Executed)
		session.ReleaseRanges(r)
		s.add(0, 0, 1)
		pass(time.Second)
		s.wantEnd("a Replayed")
	})
}

// ahead is a store whose clock is an hour ahead when it reads.
type ahead struct{ *memstore.Store }

// Look implements store.Ranger.
func (a ahead) Look(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	results := a.Store.Look(ctx, reqs)
	for i := range results {
		results[i].Entry.Token += time.Hour.Milliseconds()
	}
	return results
}

// A run and a claim of one key under one lease have different tokens, even if no time passes between them.
func TestKeyIsClaimedWithAGreaterTokenThanItRanWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		requests := &counted{
			Store: memstore.New(memstore.Config{Clock: func() time.Time { return begun }}),
			drop:  func(op string) bool { return op == "complete" },
		}
		e, err := idem.New(requests, idem.Config{ClaimByPartition: true, Lease: rangeLease})
		if err != nil {
			t.Fatal(err)
		}
		session := e.Session(t.Context())
		defer session.Close()
		r := &idem.Range{Key: "ns%t-0"}
		session.HoldRange(r, 0)
		var tokens []int64
		claim := &idem.Claim{Task: idem.Task{Key: "a",
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				a, _ := idem.AttemptFrom(ctx)
				tokens = append(tokens, a.Token)
				return nil, nil
			})}}
		for range 2 {
			claim.Enter(r)
			session.LookUp([]*idem.Claim{claim})
			if !claim.ByPartition() {
				session.Claim([]*idem.Claim{claim})
			}
			session.Run(claim)
		}
		if len(tokens) != 2 || tokens[1] <= tokens[0] {
			t.Errorf("tokens %v; want two that grow", tokens)
		}
	})
}
