package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// meddler is a client whose answers a test can change.
type meddler struct {
	*dynamodb.Client

	mu         sync.Mutex
	statements func(n int, in *dynamodb.BatchExecuteStatementInput, out *dynamodb.BatchExecuteStatementOutput)
	// the request sent instead
	read  func(n int, in *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemInput
	calls map[string]int
}

func (m *meddler) count(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[op]++
	return m.calls[op]
}

// BatchExecuteStatement implements dynamostore.Client.
func (m *meddler) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	n := m.count("BatchExecuteStatement")
	out, err := m.Client.BatchExecuteStatement(ctx, in, opts...)
	if err == nil && m.statements != nil {
		m.statements(n, in, out)
	}
	return out, err
}

// BatchGetItem implements dynamostore.Client. Keys that are not asked for are returned as unprocessed.
func (m *meddler) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	n := m.count("BatchGetItem")
	if m.read == nil {
		return m.Client.BatchGetItem(ctx, in, opts...)
	}
	asked := m.read(n, in)
	out := &dynamodb.BatchGetItemOutput{}
	if asked != nil {
		var err error
		if out, err = m.Client.BatchGetItem(ctx, asked, opts...); err != nil {
			return nil, err
		}
	}
	for table, all := range in.RequestItems {
		left := all.Keys
		if asked != nil {
			left = left[len(asked.RequestItems[table].Keys):]
		}
		if len(left) > 0 {
			out.UnprocessedKeys = map[string]types.KeysAndAttributes{table: {Keys: left,
				ConsistentRead: all.ConsistentRead}}
		}
	}
	return out, nil
}

func meddledStore(t *testing.T) (*dynamostore.Store, *meddler) {
	t.Helper()
	c := client(newWire(t), fake(t).URL())
	table := newStore(t, c, dynamostore.Config{}).Table()
	m := &meddler{Client: c, calls: map[string]int{}}
	s, err := dynamostore.New(m, dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// claimsFor returns n requests. The keys are the same in each round, the owners differ.
func claimsFor(n, round int) []store.ClaimRequest {
	reqs := make([]store.ClaimRequest, n)
	for i := range reqs {
		reqs[i] = store.ClaimRequest{
			Key: fmt.Sprint("key-", i), Owner: fmt.Sprint("owner-", round, "-", i), Lease: time.Minute,
			Retention: time.Hour,
		}
	}
	return reqs
}

func mustClaim(t *testing.T, s store.Store, reqs []store.ClaimRequest,
	want store.ClaimState) []store.ClaimResult {
	t.Helper()
	results := s.Claim(t.Context(), reqs)
	for i := range results {
		if results[i].State != want || results[i].Err != nil {
			t.Fatalf("%s: state %v, error %v; want state %v", reqs[i].Key, results[i].State, results[i].Err,
				want)
		}
	}
	return results
}

func completions(results []store.ClaimResult) []store.Settlement {
	ss := make([]store.Settlement, len(results))
	for i := range results {
		entry := &results[i].Entry
		ss[i] = store.Settlement{Op: store.OpComplete, Key: entry.Key, Token: entry.Token, Owner: entry.Owner,
			Retention: time.Hour}
	}
	return ss
}

// A thousand new keys, claimed 250 at a time, cost 0.08 requests each. As duplicates they cost 0.05 in the
// first batch and 0.01 in the next ones.
func TestRequestsOfABatch(t *testing.T) {
	w := newWire(t)
	s := newStore(t, client(w, fake(t).URL()), dynamostore.Config{})
	const records, atOnce = 1000, 250
	round := func(n int, want store.ClaimState, settle bool) map[string]int {
		w.count()
		reqs := claimsFor(records, n)
		for from := 0; from < records; from += atOnce {
			results := mustClaim(t, s, reqs[from:from+atOnce], want)
			if settle {
				if errs := s.Settle(t.Context(), completions(results)); errs != nil {
					t.Fatal(errors.Join(errs...))
				}
			}
		}
		return w.count()
	}
	for n, tc := range []struct {
		name   string
		state  store.ClaimState
		settle bool
		want   map[string]int
	}{
		{"fresh", store.Claimed, true, map[string]int{"BatchExecuteStatement": 80}},
		{"duplicates", store.ClaimCompleted, false,
			map[string]int{"BatchExecuteStatement": 10, "BatchGetItem": 3 + 3*3}},
		{"duplicates again", store.ClaimCompleted, false, map[string]int{"BatchGetItem": 4 * 3}},
	} {
		if got := round(n, tc.state, tc.settle); !maps.Equal(got, tc.want) {
			t.Errorf("%s: requests %v; want %v", tc.name, got, tc.want)
		}
	}
}

// Entries can appear or disappear between the read and the write.
func TestBatchThatIsReadFirstIsStillConditional(t *testing.T) {
	s, _ := meddledStore(t)
	reqs := claimsFor(10, 0)
	if errs := s.Settle(t.Context(), completions(mustClaim(t, s, reqs[:8], store.Claimed))); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	mustClaim(t, s, claimsFor(8, 1), store.ClaimCompleted) // the following batches are read first
	results := s.Claim(t.Context(), claimsFor(10, 2))
	for i := range results {
		want := store.ClaimCompleted
		if i >= 8 {
			want = store.Claimed
		}
		if results[i].State != want || results[i].Err != nil {
			t.Errorf("%s: state %v, error %v; want %v", reqs[i].Key, results[i].State, results[i].Err, want)
		}
	}
}

// A statement that is throttled, or fails with an internal error of the service, is retried without the
// others of its request.
func TestThrottledStatementIsRetried(t *testing.T) {
	for _, code := range []types.BatchStatementErrorCodeEnum{
		types.BatchStatementErrorCodeEnumThrottlingError,
		types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded,
		types.BatchStatementErrorCodeEnumRequestLimitExceeded,
		types.BatchStatementErrorCodeEnumInternalServerError,
		types.BatchStatementErrorCodeEnumTransactionConflict,
	} {
		t.Run(string(code), func(t *testing.T) {
			s, m := meddledStore(t)
			var sizes []int
			m.statements = func(n int, in *dynamodb.BatchExecuteStatementInput,
				out *dynamodb.BatchExecuteStatementOutput) {
				sizes = append(sizes, len(in.Statements))
				if n <= 2 { // it took effect; the client can't know
					out.Responses[0] = types.BatchStatementResponse{Error: &types.BatchStatementError{Code: code}}
				}
			}
			results := mustClaim(t, s, claimsFor(3, 0), store.Claimed)
			if got, want := fmt.Sprint(sizes), "[3 1 1]"; got != want {
				t.Errorf("requests of %s statements; want %s", got, want)
			}
			sizes = nil
			m.statements = func(_ int, in *dynamodb.BatchExecuteStatementInput,
				out *dynamodb.BatchExecuteStatementOutput) {
				sizes = append(sizes, len(in.Statements))
				if len(sizes) == 1 {
					out.Responses[1] = types.BatchStatementResponse{Error: &types.BatchStatementError{Code: code}}
				}
			}
			if errs := s.Settle(t.Context(), completions(results)); errs != nil {
				t.Fatal(errors.Join(errs...))
			}
			if got, want := fmt.Sprint(sizes), "[3 1]"; got != want {
				t.Errorf("requests of %s statements; want %s", got, want)
			}
		})
	}
}

// Throttling beyond the last attempt is an error of the affected keys and names a remedy.
func TestLastingThrottlingIsAnError(t *testing.T) {
	s, m := meddledStore(t)
	m.statements = func(_ int, in *dynamodb.BatchExecuteStatementInput,
		out *dynamodb.BatchExecuteStatementOutput) {
		for i := range in.Statements {
			if out.Responses[i].Error == nil {
				continue
			}
			out.Responses[i].Error.Item = nil
		}
		out.Responses[0] = types.BatchStatementResponse{Error: &types.BatchStatementError{
			Code:    types.BatchStatementErrorCodeEnumThrottlingError,
			Message: aws.String("Throughput exceeds the current capacity"),
		}}
	}
	results := s.Claim(t.Context(), claimsFor(3, 0))
	for i := range results[1:] {
		if results[1+i].State != store.Claimed {
			t.Errorf("the claims beside it: %v", results[1+i].Err)
		}
	}
	err := results[0].Err
	for _, want := range []string{`claim "key-0" in table idemsk-`, "ThrottlingError", "raise its capacity"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want %q in it", err, want)
		}
	}
	if got := m.calls["BatchExecuteStatement"]; got != dynamostore.MaxAttempts {
		t.Errorf("%d requests; want %d", got, dynamostore.MaxAttempts)
	}
}

func TestBatchOnAMissingTable(t *testing.T) {
	s, err := dynamostore.New(client(newWire(t), fake(t).URL()), dynamostore.Config{Table: "nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		s.Claim(t.Context(), claimsFor(2, 0))[1].Err,
		s.Settle(t.Context(), []store.Settlement{{Op: store.OpComplete, Key: "a", Retention: 1},
			{Op: store.OpComplete, Key: "b", Retention: 1}})[1],
	} {
		if err == nil || errors.Is(err, store.ErrFenced) ||
			!strings.Contains(err.Error(), "in table nowhere") ||
			!strings.Contains(err.Error(), "deploy the stack") {
			t.Errorf("the error is %v; want one that names the table and what to do", err)
		}
	}
}

// Unprocessed keys of a read are retried, up to MaxAttempts.
func TestUnprocessedKeysAreRetried(t *testing.T) {
	s, m := meddledStore(t)
	if errs := s.Settle(t.Context(), completions(
		mustClaim(t, s, claimsFor(20, 0), store.Claimed))); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	table := s.Table()
	m.read = func(_ int, in *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemInput {
		some := in.RequestItems[table]
		some.Keys = some.Keys[:(len(some.Keys)+1)/2]
		return &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{table: some}}
	}
	results := s.Claim(t.Context(), claimsFor(8, 1)) // 4, 2, 1, 1
	for i := range results {
		if results[i].State != store.ClaimCompleted {
			t.Errorf("%d: %v, %v", i, results[i].State, results[i].Err)
		}
	}
	m.read = func(int, *dynamodb.BatchGetItemInput) *dynamodb.BatchGetItemInput { return nil }
	for i, r := range s.Claim(t.Context(), claimsFor(8, 2)) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "8 of 8 keys were left unread after 4 requests") {
			t.Errorf("%d: %v, %v", i, r.State, r.Err)
		}
	}
}

func TestTableNamedByItsARNHasNoBatches(t *testing.T) {
	for table, want := range map[string]int{"idemsk": 25,
		"arn:aws:dynamodb:eu-central-1:111122223333:table/idemsk": 1} {
		s, err := dynamostore.New(client(newWire(t), "http://127.0.0.1:1"), dynamostore.Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.BatchSize(); got != want {
			t.Errorf("batches of %d for %s; want %d", got, table, want)
		}
	}
}

// Each reading of the clock is a millisecond after the one before: the entry of a take-over is not older than
// the end of the lease that it takes.
func TestTakeOverInABatchIsWrittenAfterTheLeaseWasOver(t *testing.T) {
	const skew = 3 * time.Millisecond
	now := time.UnixMilli(4_000_000_000_000)
	s := newStore(t, client(newWire(t), fake(t).URL()),
		dynamostore.Config{MaxClockSkew: skew, Clock: func() time.Time {
			now = now.Add(time.Millisecond)
			return now
		}})
	s.BatchSingles()
	for lease := 5 * time.Millisecond; lease < 15*time.Millisecond; lease += time.Millisecond {
		claim := func(owner int) store.ClaimResult {
			return s.Claim(t.Context(), []store.ClaimRequest{{
				Key: fmt.Sprint("k", lease), Owner: ownerName(owner), Lease: lease, Retention: time.Hour,
				TakeOver: true,
			}})[0]
		}
		first := claim(0)
		next := claim(1)
		for owner := 2; next.State == store.ClaimInFlight; owner++ {
			next = claim(owner)
		}
		if over := first.Entry.LeaseUntil.Add(skew); !next.Stolen || next.Entry.UpdatedAt.Before(over) {
			t.Errorf("lease %v: %+v; want it taken at %v or later", lease, next, over)
		}
	}
}
