package dynamostore_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// foreignItems are items that idemsk never wrote.
func foreignItems() map[string]map[string]types.AttributeValue {
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	return map[string]map[string]types.AttributeValue{
		"nothing but a key":      {},
		"an unknown status":      {"status": text("DONE")},
		"a version that is text": {"status": text("STARTED"), "version": text("many")},
	}
}

// plant puts an item under a key.
func plant(t *testing.T, c *dynamodb.Client, table, key string, item map[string]types.AttributeValue) {
	t.Helper()
	item = maps.Clone(item)
	item[dynamostore.AttrKey] = &types.AttributeValueMemberS{Value: key}
	if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// wantForeign checks that the error is ErrForeignEntry, and names the key and the command that shows the
// item.
func wantForeign(t *testing.T, err error, key string) {
	t.Helper()
	if !errors.Is(err, store.ErrForeignEntry) || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) ||
		!strings.Contains(err.Error(), "idemsk get") {
		t.Errorf("error %v; want ErrForeignEntry that names %q, and `idemsk get`", err, key)
	}
}

// A foreign item affects only its own key, whether a refused write or a read returns it.
func TestForeignItemAffectsOnlyItsOwnKey(t *testing.T) {
	for name, item := range foreignItems() {
		t.Run(name, func(t *testing.T) {
			onBothPaths(t, func(t *testing.T, batched bool) {
				c := client(newWire(t), fake(t).URL())
				s := newStore(t, c, dynamostore.Config{})
				if !batched {
					s.NoBatches()
				}
				const foreign = "key-1"
				plant(t, c, s.Table(), foreign, item)
				for round, others := range []store.ClaimState{store.Claimed, store.ClaimInFlight,
					store.ClaimInFlight} {
					reqs := claimsFor(5, round)
					for i, res := range s.Claim(t.Context(), reqs) {
						switch {
						case reqs[i].Key == foreign:
							equalState(t, foreign, res.State, store.ClaimUnknown)
							wantForeign(t, res.Err, foreign)
						case res.Err != nil:
							t.Errorf("%s: %v", reqs[i].Key, res.Err)
						default:
							equalState(t, reqs[i].Key, res.State, others)
						}
					}
				}
				_, err := s.Get(t.Context(), foreign)
				wantForeign(t, err, foreign)
			})
		})
	}
}

func equalState(t *testing.T, key string, got, want store.ClaimState) {
	t.Helper()
	if got != want {
		t.Errorf("%s: state %d; want %d", key, got, want)
	}
}

func TestOverwrittenClaimCannotBeSettled(t *testing.T) {
	onBothPaths(t, func(t *testing.T, batched bool) {
		c := client(newWire(t), fake(t).URL())
		s := newStore(t, c, dynamostore.Config{})
		if !batched {
			s.NoBatches()
		}
		claimed := mustClaim(t, s, claimsFor(3, 0), store.Claimed)
		plant(t, c, s.Table(), "key-1", foreignItems()["an unknown status"])
		errs := s.Settle(t.Context(), completions(claimed))
		wantForeign(t, errs[1], "key-1")
		if err := errors.Join(errs[0], errs[2]); err != nil {
			t.Error(err)
		}
	})
}

// No effect is committed if the key has a foreign item.
func TestEffectIsNotCommittedOverAForeignItem(t *testing.T) {
	b := newBooks(t)
	plant(t, client(b.wire, *b.client.Client.(*dynamodb.Client).Options().BaseEndpoint), b.Table(), "k",
		foreignItems()["an unknown status"])
	b.wire.count()
	out := b.run(t, idem.Config{}, "k", b.put("booking"))
	if out.Kind != idem.Retry {
		t.Errorf("outcome %v", out.Kind)
	}
	wantForeign(t, out.Err, "k")
	if n := total(b.wire.count()); n != 1 {
		t.Errorf("%d requests; want 1: there is no use in trying again", n)
	}
}
