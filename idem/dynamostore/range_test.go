package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// leaseOf returns a claim of the lease of a range. Its key and its source are as long as those of the longest
// names of a function and a topic.
func leaseOf(partition, owner int) store.ClaimRequest {
	const longestFunction, longestTopic = 64, 249
	topic := strings.Repeat("t", longestTopic)
	return store.ClaimRequest{
		Key:    fmt.Sprint(strings.Repeat("f", longestFunction), "%", topic, "-", partition),
		Owner:  strings.Repeat(ownerName(owner), 3),
		Source: fmt.Sprint(topic, "-", partition, "@", int64(1)<<60), Lease: time.Minute,
		Retention: time.Hour,
		Range:     &store.Range{End: 1<<60 + int64(owner)},
	}
}

func releaseOf(entry store.Entry) store.Settlement {
	return store.Settlement{
		Op: store.OpRelease, Key: entry.Key, Token: entry.Token, Owner: entry.Owner, Retention: time.Hour,
		Refund: true,
		Range:  &store.Range{Till: entry.Range.End},
	}
}

func releases(results []store.ClaimResult) []store.Settlement {
	ss := make([]store.Settlement, len(results))
	for i := range results {
		ss[i] = releaseOf(results[i].Entry)
	}
	return ss
}

func leasesOf(partitions, owner int) []store.ClaimRequest {
	reqs := make([]store.ClaimRequest, partitions)
	for i := range reqs {
		reqs[i] = leaseOf(i, owner)
	}
	return reqs
}

func mustSettle(t *testing.T, s store.Store, ss []store.Settlement) {
	t.Helper()
	if errs := s.Settle(t.Context(), ss); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
}

// sameTable returns another process's store on the table of s.
func sameTable(t *testing.T, s *dynamostore.Store, url string) *dynamostore.Store {
	t.Helper()
	other, err := dynamostore.New(client(newWire(t), url), dynamostore.Config{Table: s.Table()})
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// insertionsFor returns settlements that claim the keys of claimsFor, of the three kinds.
func insertionsFor(n, round int) []store.Settlement {
	ops := []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease}
	var ss []store.Settlement
	for i, req := range claimsFor(n, round) {
		ss = append(ss, store.Settlement{Op: ops[i%3], Key: req.Key, Token: 7, Owner: req.Owner,
			Retention: time.Hour, Claim: &req})
	}
	return ss
}

// TestUnitsOfRanges counts the requests and the units of each step of two partitions, or of one.
func TestUnitsOfRanges(t *testing.T) {
	for _, n := range []int{1, 2, 60} {
		put, update, chunks := "PutItem", "UpdateItem", 1
		if n > 1 {
			put, update, chunks = "BatchExecuteStatement", "BatchExecuteStatement", (n+24)/25
		}
		units := float64(n)
		var s, other *dynamostore.Store
		var held []store.ClaimResult
		claim := func(owner int) func(t *testing.T) {
			return func(t *testing.T) { held = mustClaim(t, s, leasesOf(n, owner), store.Claimed) }
		}
		release := func(t *testing.T) { mustSettle(t, s, releases(held)) }
		look := func(t *testing.T) {
			for _, res := range s.Look(t.Context(), claimsFor(n, 1)) {
				if res.State != store.ClaimUnknown || res.Entry.Key != "" || res.Err != nil {
					t.Errorf("%+v; want the zero value of an absent key", res)
				}
			}
		}
		srv := fake(t)
		s = newStore(t, client(newWire(t), srv.URL()), dynamostore.Config{})
		other = sameTable(t, s, srv.URL())
		// A refused INSERT of a batch does not return the item, a refused PutItem does.
		cold, again, reads := map[string]int{"PutItem": 1, "UpdateItem": 1}, map[string]int{"PutItem": 1}, 0.0
		if n > 1 {
			cold = map[string]int{"BatchExecuteStatement": 2 * chunks, "BatchGetItem": 1}
			again, reads = map[string]int{"BatchExecuteStatement": chunks, "BatchGetItem": 1}, units
		}
		for _, step := range []struct {
			name          string
			do            func(t *testing.T)
			requests      map[string]int
			writes, reads float64
		}{
			{"the first claim of a lease", claim(1), map[string]int{put: chunks}, units, 0},
			{"a release", release, map[string]int{update: chunks}, units, 0},
			{"a claim by the process that released it", claim(2), map[string]int{update: chunks}, units, 0},
			{"its release", release, map[string]int{update: chunks}, units, 0},
			{"a claim by another process",
				func(t *testing.T) { held = mustClaim(t, other, leasesOf(n, 3), store.Claimed) }, cold,
				2 * units, reads},
			{"the release by the other process", func(t *testing.T) { mustSettle(t, other, releases(held)) },
				map[string]int{update: chunks}, units, 0},
			{"a claim by the process that released it before", claim(4), map[string]int{update: 2 * chunks},
				2 * units, 0},
			{"one more release", release, map[string]int{update: chunks}, units, 0},
			{"a claim by a new process", func(t *testing.T) {
				s = sameTable(t, s, srv.URL())
				mustClaim(t, s, leasesOf(n, 5), store.Claimed)
			}, cold, 2 * units, reads},
			{"a look at absent keys", look, map[string]int{"BatchGetItem": 1}, 0, units},
			{"their insertion", func(t *testing.T) { mustSettle(t, s, insertionsFor(n, 0)) },
				map[string]int{put: chunks}, units, 0},
			{"an insertion whose reply was lost",
				func(t *testing.T) { mustSettle(t, s, insertionsFor(n, 0)) }, again, units, reads},
		} {
			t.Run(fmt.Sprint(n, " partitions or keys: ", step.name), func(t *testing.T) {
				srv.ResetUsage()
				step.do(t)
				if u := srv.Usage(); !maps.Equal(u.Requests, step.requests) || u.WriteUnits != step.writes ||
					u.ReadUnits != step.reads {
					t.Errorf("requests %v, %v write units, %v read units; want %v, %v, %v",
						u.Requests, u.WriteUnits, u.ReadUnits, step.requests, step.writes, step.reads)
				}
			})
		}
	}
}

// An item that refuses an INSERT may be gone before it is read.
func TestRefusedInsertionWhoseItemIsGone(t *testing.T) {
	s, m := meddledStore(t)
	held := mustClaim(t, s, claimsFor(2, 0), store.Claimed)
	m.read = func(_ int, in *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemInput {
		if err := s.Delete(t.Context(), held[1].Entry.Key, held[1].Entry.Token); err != nil {
			t.Error(err)
		}
		return in
	}
	for i, err := range s.Settle(t.Context(), insertionsFor(2, 1)) {
		var refused *store.ClaimRefusedError
		if !errors.As(err, &refused) || refused.Result.Err != nil {
			t.Fatalf("%d: %v; want a ClaimRefusedError", i, err)
		}
		if want := []store.ClaimState{store.ClaimInFlight,
			store.ClaimUnknown}[i]; refused.Result.State != want ||
			(i == 1) != (refused.Result.Entry.Key == "") {
			t.Errorf("%d: %+v; want state %d", i, refused.Result, want)
		}
	}
}

// A key whose item can't be read may have been inserted by the same settlement before.
func TestRefusedInsertionWithoutARead(t *testing.T) {
	s, m := meddledStore(t)
	ss := insertionsFor(3, 0)
	mustSettle(t, s, ss[:2])
	m.read = func(int, *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemInput { return nil }
	for i, err := range s.Settle(t.Context(), ss) {
		if known := errors.Is(err, store.ErrClaimRefused) || err == nil; known != (i == 2) {
			t.Errorf("%d: %v", i, err)
		}
	}
	m.read = nil
	mustSettle(t, s, ss)
}

// byName sends the reads of a table that is named by its ARN to the table of that name, and returns the
// answer under the name.
type byName struct{ *dynamodb.Client }

// BatchGetItem implements dynamostore.Client.
func (c byName) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	items := make(map[string]types.KeysAndAttributes)
	for arn, keys := range in.RequestItems {
		items[arn[strings.LastIndexByte(arn, '/')+1:]] = keys
	}
	return c.Client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: items}, opts...)
}

// The documentation of BatchGetItem does not say whether the answer for a table that is named by its ARN is
// under the ARN.
func TestLookAtATableNamedByItsARN(t *testing.T) {
	c := client(newWire(t), fake(t).URL())
	s := newStore(t, c, dynamostore.Config{})
	mustClaim(t, s, claimsFor(1, 0), store.Claimed)
	named, err := dynamostore.New(byName{c},
		dynamostore.Config{Table: "arn:aws:dynamodb:eu-central-1:111122223333:table/" + s.Table()})
	if err != nil {
		t.Fatal(err)
	}
	for i, res := range named.Look(t.Context(), claimsFor(2, 1)) {
		if want := []store.ClaimState{store.ClaimInFlight, store.ClaimUnknown}[i]; res.State != want ||
			res.Err != nil {
			t.Errorf("%d: %+v; want state %d", i, res, want)
		}
	}
}

// A store forgets the leases beyond its limit. Then a claim costs as much as that of a new process.
func TestForgottenLeases(t *testing.T) {
	srv := fake(t)
	s := newStore(t, client(newWire(t), srv.URL()), dynamostore.Config{})
	n := dynamostore.MaxLeases + 1
	mustSettle(t, s, releases(mustClaim(t, s, leasesOf(n, 1), store.Claimed)))
	srv.ResetUsage()
	mustClaim(t, s, leasesOf(n, 2), store.Claimed)
	if u := srv.Usage(); u.WriteUnits <= float64(n) || u.WriteUnits > float64(2*n) {
		t.Errorf("%v write units for %d leases", u.WriteUnits, n)
	}
}

// Whether a batch of keys is read first depends on the keys of the batch before, and leases are not read
// first.
func TestLeasesDoNotDecideWhetherKeysAreReadFirst(t *testing.T) {
	const n = 20
	srv := fake(t)
	s := newStore(t, client(newWire(t), srv.URL()), dynamostore.Config{})
	reads := func(want int, f func()) {
		t.Helper()
		srv.ResetUsage()
		f()
		if got := srv.Usage().Requests["BatchGetItem"]; got != want {
			t.Errorf("%d reads; want %d", got, want)
		}
	}
	mustClaim(t, sameTable(t, s, srv.URL()), leasesOf(n, 1), store.Claimed)
	reads(1, func() { mustClaim(t, s, leasesOf(n, 2), store.ClaimInFlight) })
	keys := claimsFor(n, 1)
	reads(0, func() { mustSettle(t, s, completions(mustClaim(t, s, keys, store.Claimed))) })
	// the following batches of keys are read first
	reads(1, func() { mustClaim(t, s, claimsFor(n, 2), store.ClaimCompleted) })
	reads(0, func() { mustClaim(t, s, leasesOf(2*n, 2)[n:], store.Claimed) })
	srv.ResetUsage()
	mustClaim(t, s, claimsFor(n, 3), store.ClaimCompleted)
	if u := srv.Usage(); u.WriteUnits != 0 || u.ReadUnits != n {
		t.Errorf("%v write units, %v read units; want 0, %d", u.WriteUnits, u.ReadUnits, n)
	}
}
