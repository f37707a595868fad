package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// conflicts refuses the next n requests of an operation as if a transaction were writing the item.
type conflicts struct {
	op   string
	left atomic.Int64
}

func (c *conflicts) fault(op string, _ []byte) dynamofake.Fault {
	if op != c.op || c.left.Add(-1) < 0 {
		return dynamofake.Fault{}
	}
	return dynamofake.Fault{Error: &dynamofake.Error{Code: "TransactionConflictException",
		Message: "Transaction is ongoing for the item"}}
}

const noEnd = 1 << 40

// failingOpen returns an engine that fails open.
func failingOpen(t *testing.T, s store.Store, wait time.Duration) *idem.Engine {
	t.Helper()
	e, err := idem.New(s, idem.Config{FailOpen: true, Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// DynamoDB refuses a write on an item that a transaction is writing. A claim then finds its key in flight;
// no task runs without protection.
func TestClaimDuringATransactionFindsItsKeyInFlight(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, op string
		before   func(t *testing.T, s *dynamostore.Store, e *idem.Engine, task idem.Task) // prepares the key
		then     idem.Kind
	}{
		{"COMPLETED", "PutItem", func(t *testing.T, _ *dynamostore.Store, e *idem.Engine, task idem.Task) {
			if out := e.Do(t.Context(), task); out.Kind != idem.Executed {
				t.Fatal(out.Kind, out.Err)
			}
		}, idem.Replayed},
		{"released", "UpdateItem", func(t *testing.T, s *dynamostore.Store, _ *idem.Engine, task idem.Task) {
			entry := mustClaim(t, s, []store.ClaimRequest{{Key: task.Key, Owner: "another",
				Lease: time.Minute, Retention: time.Hour}}, store.Claimed)[0].Entry
			if errs := s.Settle(t.Context(),
				[]store.Settlement{{Op: store.OpRelease, Key: entry.Key, Token: entry.Token,
					Owner: entry.Owner}}); errs != nil {
				t.Fatal(errs)
			}
		}, idem.Executed},
	} {
		for _, n := range []int64{1, 3 * dynamostore.MaxAttempts, noEnd} {
			t.Run(fmt.Sprint(tc.name, ", conflicts ", n), func(t *testing.T) {
				t.Parallel()
				met := conflicts{op: tc.op}
				s := newStore(t, client(newWire(t), fakeWith(t, met.fault).URL()), dynamostore.Config{})
				wait := time.Minute
				if n == noEnd {
					wait = 200 * time.Millisecond
				}
				e := failingOpen(t, s, wait)
				calls := 0
				task := idem.Task{Key: "p#1",
					Handler: idem.HandlerFunc(
						func(context.Context) ([]byte, error) { calls++; return nil, nil })}
				tc.before(t, s, e, task)
				called := calls
				met.left.Store(n)
				out := e.Do(t.Context(), task)
				if n == noEnd {
					if out.Kind != idem.InFlight || !errors.Is(out.Err, idem.ErrInFlight) {
						t.Fatalf("%v, %v; want InFlight", out.Kind, out.Err)
					}
					met.left.Store(0)
					out = e.Do(t.Context(), task)
				}
				if out.Kind != tc.then || out.Err != nil {
					t.Errorf("%v, %v; want %v", out.Kind, out.Err, tc.then)
				}
				if tc.then == idem.Replayed && calls != called {
					t.Errorf("the handler of a COMPLETED key was called %d times more", calls-called)
				}
			})
		}
	}
}

// The claims of a batch have separate answers.
func TestBatchedClaimsDuringATransactionFindTheirKeysInFlight(t *testing.T) {
	s, m := meddledStore(t)
	if errs := s.Settle(t.Context(), completions(
		mustClaim(t, s, claimsFor(3, 0), store.Claimed))); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	m.statements = func(_ int, _ *dynamodb.BatchExecuteStatementInput,
		out *dynamodb.BatchExecuteStatementOutput) {
		for i := range out.Responses {
			out.Responses[i] = types.BatchStatementResponse{Error: &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumTransactionConflict}}
		}
	}
	scheduler, err := idem.NewScheduler(failingOpen(t, s, -1), idem.SchedulerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []idem.Kind{idem.InFlight, idem.Replayed} {
		lanes := make([][]*idem.Item, 3)
		for i := range lanes {
			lanes[i] = []*idem.Item{{Task: idem.Task{Key: fmt.Sprint("key-", i),
				Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
					t.Error("the handler of a COMPLETED key was called")
					return nil, nil
				})}}}
		}
		scheduler.Run(t.Context(), lanes)
		for _, lane := range lanes {
			if out := lane[0].Outcome; out.Kind != want {
				t.Errorf("%s: %v, %v; want %v", out.Key, out.Kind, out.Err, want)
			}
		}
		m.statements = nil
	}
}

// Settlements during a transaction are retried, and fail with ErrContended after the last attempt.
func TestSettlementDuringATransactionIsRetried(t *testing.T) {
	t.Parallel()
	met := conflicts{op: "UpdateItem"}
	s := newStore(t, client(newWire(t), fakeWith(t, met.fault).URL()), dynamostore.Config{})
	entry := mustClaim(t, s, claimsFor(1, 0), store.Claimed)[0].Entry
	for _, op := range []store.SettleOp{store.OpExtend, store.OpRelease, store.OpComplete, store.OpFail} {
		met.left.Store(noEnd)
		set := store.Settlement{Op: op, Key: entry.Key, Token: entry.Token, Owner: entry.Owner,
			Lease: time.Minute, Retention: time.Hour}
		if err := s.Settle(t.Context(), []store.Settlement{set})[0]; !errors.Is(err, store.ErrContended) ||
			!strings.Contains(err.Error(), op.String()) {
			t.Errorf("%v: %v; want ErrContended", op, err)
		}
		if sent := noEnd - met.left.Load(); sent != dynamostore.MaxAttempts {
			t.Errorf("%v: %d requests; want %d", op, sent, dynamostore.MaxAttempts)
		}
	}
	met.left.Store(dynamostore.MaxAttempts - 1)
	if errs := s.Settle(t.Context(), completions([]store.ClaimResult{{Entry: entry}})); errs != nil {
		t.Error(errs)
	}
}

// A completion with an effect conflicts with a transaction that writes the same item. The store is available
// meanwhile.
func TestCompletionDuringATransactionIsNoOutage(t *testing.T) {
	t.Parallel()
	const ownKey, effect = 0, 1
	for _, tc := range []struct {
		name string
		say  func(b *books)
		down bool
	}{
		{"on the key", func(b *books) { b.client.cancels("TransactionConflict", ownKey) }, false},
		{"on the effect's item", func(b *books) { b.client.cancels("TransactionConflict", effect) }, false},
		{"the effect's table is throttled", func(b *books) { b.client.cancels("ThrottlingError", effect) },
			false},
		{"the same transaction in progress", func(b *books) {
			b.client.say = func(int, *dynamodb.TransactWriteItemsInput) error { return &types.TransactionInProgressException{} }
		}, false},
		{"the keys' table is throttled",
			func(b *books) { b.client.cancels("ProvisionedThroughputExceeded", ownKey) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			tc.say(b)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			out := failingOpen(t, b, 0).Do(ctx, b.task("k", b.put("a")))
			if out.Kind != idem.CompletionFailed || errors.Is(out.Err, store.ErrContended) == tc.down {
				t.Fatalf("%v, %v", out.Kind, out.Err)
			}
		})
	}
}

// A table that is missing, or that is throttled or has internal errors in all attempts, is an outage.
func TestThrottlingIsAnOutage(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
		"InternalServerError",
	} {
		t.Run(code, func(t *testing.T) {
			s := newStore(t, client(newWire(t), fakeWith(t, func(op string, body []byte) dynamofake.Fault {
				if op == "PutItem" && bytes.Contains(body, []byte(`"k"`)) {
					return dynamofake.Fault{Error: &dynamofake.Error{Code: code}}
				}
				return dynamofake.Fault{}
			}).URL()), dynamostore.Config{})
			out := failingOpen(t, s, 0).Do(t.Context(),
				idem.Task{Key: "k", Handler: idem.HandlerFunc(
					func(context.Context) ([]byte, error) { return nil, nil })})
			if out.Kind != idem.FailedOpen || errors.Is(out.Err, store.ErrContended) {
				t.Errorf("%v, %v; want FailedOpen", out.Kind, out.Err)
			}
		})
	}
}

// cancels cancels every transaction because of one of its items.
func (c *canceller) cancels(code string, item int) {
	c.say = func(_ int, in *dynamodb.TransactWriteItemsInput) error { return cancelled(in, code, item) }
}

// Deleting a key by hand while a transaction writes it is refused with a remedy.
func TestDeleteDuringATransactionIsRefused(t *testing.T) {
	met := conflicts{op: "DeleteItem"}
	s := newStore(t, client(newWire(t), fakeWith(t, met.fault).URL()), dynamostore.Config{})
	version := aws.ToInt64(&mustClaim(t, s, claimsFor(1, 0), store.Claimed)[0].Entry.Token)
	met.left.Store(noEnd)
	if err := s.Delete(t.Context(), "key-0", version); !errors.Is(err, store.ErrContended) ||
		!strings.Contains(err.Error(), "try again") {
		t.Errorf("%v", err)
	}
	met.left.Store(1)
	if err := s.Delete(t.Context(), "key-0", version); err != nil {
		t.Error(err)
	}
}
