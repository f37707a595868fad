package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem/store"
)

// group returns claimed completions with an effect each: item-0, item-1 and so on.
func (b *books) group(t *testing.T, n int) []store.Settlement {
	t.Helper()
	ss := make([]store.Settlement, n)
	for i := range ss {
		res := b.Claim(t.Context(), []store.ClaimRequest{{Key: fmt.Sprint("key-", i), Owner: "owner", Lease: time.Minute}})[0]
		if res.State != store.Claimed {
			t.Fatalf("%+v", res)
		}
		ss[i] = store.Settlement{Op: store.OpComplete, Key: res.Entry.Key, Token: res.Entry.Token, Owner: res.Entry.Owner,
			Effect: b.NewEffect()}
		ctx := context.WithValue(t.Context(), store.EffectKey{}, func() store.Effect { return ss[i].Effect })
		if _, err := b.task("", b.put(fmt.Sprint("item-", i))).Handler.Handle(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := ss[i].Effect.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	return ss
}

// writesItem4 returns the index of the write of item-4 in a transaction, or -1.
func writesItem4(in *dynamodb.TransactWriteItemsInput) int {
	return slices.IndexFunc(in.TransactItems, func(item types.TransactWriteItem) bool {
		if item.Put == nil {
			return false
		}
		id, _ := item.Put.Item["id"].(*types.AttributeValueMemberS)
		return id != nil && id.Value == "item-4"
	})
}

// What fails because of one completion, for whatever reason, does so without the others that were sent with it.
func TestOneCompletionFailsWithoutTheOthers(t *testing.T) {
	t.Parallel()
	api := func(code string) func(*dynamodb.TransactWriteItemsInput, int) error {
		return func(*dynamodb.TransactWriteItemsInput, int) error { return &smithy.GenericAPIError{Code: code} }
	}
	reason := func(code string, before int) func(*dynamodb.TransactWriteItemsInput, int) error {
		return func(in *dynamodb.TransactWriteItemsInput, at int) error { return cancelled(in, code, at-before) }
	}
	for name, tc := range map[string]struct {
		err      func(in *dynamodb.TransactWriteItemsInput, at int) error // of a transaction that writes item-4
		rejected bool
	}{
		"the client finds that it is incomplete": {func(*dynamodb.TransactWriteItemsInput, int) error {
			return &smithy.OperationError{Err: smithy.InvalidParamsError{Context: "TransactWriteItemsInput"}}
		}, true},
		"the client can't encode it": {func(*dynamodb.TransactWriteItemsInput, int) error {
			return &smithy.OperationError{Err: &smithy.SerializationError{Err: errors.New("unknown type")}}
		}, true},
		"it is invalid":                 {api("ValidationException"), true},
		"its table is missing":          {api("ResourceNotFoundException"), true},
		"its table is forbidden":        {api("AccessDeniedException"), true},
		"its condition fails":           {reason("ConditionalCheckFailed", 0), true},
		"its item is too large":         {reason("ValidationError", 0), true},
		"its collection is full":        {reason("ItemCollectionSizeLimitExceeded", 0), true},
		"its item is written by others": {reason("TransactionConflict", 0), false},
		"its table is throttled":        {reason("ThrottlingError", 0), false},
		"its partition is throttled":    {reason("ProvisionedThroughputExceeded", 0), false},
		"its key is written by others":  {reason("TransactionConflict", 1), false},
		"its key's item is too large":   {reason("ValidationError", 1), false},
		"its write was changed after Enlist": {func(*dynamodb.TransactWriteItemsInput, int) error {
			return &types.IdempotentParameterMismatchException{Message: aws.String("another request")}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBooks(t)
			b.client.say = func(_ int, in *dynamodb.TransactWriteItemsInput) error {
				if at := writesItem4(in); at >= 0 {
					return tc.err(in, at)
				}
				return nil
			}
			for i, err := range b.Settle(t.Context(), b.group(t, 10)) {
				switch {
				case i != 4 && err != nil:
					t.Errorf("%d: %v", i, err)
				case i == 4 && (err == nil || errors.Is(err, store.ErrRejected) != tc.rejected):
					t.Errorf("the one that fails: %v", err)
				}
			}
		})
	}
}
