package clitest

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// NewDynamoDB starts an in-process DynamoDB with a table of keys.
func NewDynamoDB(t *testing.T) (endpoint string, client *dynamodb.Client) {
	t.Helper()
	endpoint, client = StartDynamoDB(t)
	if err := dynamostore.CreateTable(t.Context(), client, dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	return endpoint, client
}

// StartDynamoDB starts an in-process DynamoDB.
func StartDynamoDB(t *testing.T) (endpoint string, client *dynamodb.Client) {
	t.Helper()
	db := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	client = dynamodb.NewFromConfig(awstest.Config(t, db.URL()))
	return db.URL(), client
}

// storeAt returns the store at a time.
func storeAt(t *testing.T, client *dynamodb.Client, now time.Time) *dynamostore.Store {
	t.Helper()
	st, err := dynamostore.New(client, dynamostore.Config{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// Fill adds keys in all states to the table, by the store.
func Fill(t *testing.T, client *dynamodb.Client) {
	t.Helper()
	now := time.Now()
	claim := func(key string, age, lease time.Duration) *store.Entry {
		res := storeAt(t, client, now.Add(-age)).Claim(t.Context(), []store.ClaimRequest{{
			Key: key, Owner: "owner-" + key, Source: "payments-0@7", Lease: lease, Retention: 168 * time.Hour,
			Fingerprint: store.FingerprintOf([]byte("v")),
		}})
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		return &res[0].Entry
	}
	settle := func(entry *store.Entry, set store.Settlement, age time.Duration) {
		set.Key, set.Token, set.Owner, set.Retention = entry.Key, entry.Token, entry.Owner, 168*time.Hour
		if errs := storeAt(t, client, now.Add(-age)).Settle(t.Context(), []store.Settlement{set}); errs != nil {
			t.Fatal(errs)
		}
	}
	receipt := []byte(`{"balance":1250}` + "\x1b")
	settle(claim("ledger#payments#done", 3*time.Hour, time.Minute),
		store.Settlement{Op: store.OpComplete, Result: receipt}, 3*time.Hour)
	settle(claim("ledger#payments#binary", 2*time.Hour, time.Minute),
		store.Settlement{Op: store.OpComplete, Result: []byte{0xff, 0}}, 2*time.Hour)
	settle(claim("ledger#payments#large", 2*time.Hour, time.Minute),
		store.Settlement{Op: store.OpComplete, ResultOmitted: 9999}, 2*time.Hour)
	settle(claim("ledger@payments-0@6200@1767231800000", 50*time.Hour, time.Minute),
		store.Settlement{Op: store.OpFail,
			Failure: &store.Failure{Code: store.CodePermanent,
				Message: "evil \x1b]0;x\a\nmessage " + strings.Repeat("x", 80)}}, 50*time.Hour)
	settle(claim("ledger#payments#released", 10*time.Minute+30*time.Second, time.Minute),
		store.Settlement{Op: store.OpRelease, Delay: 3 * time.Hour,
			Failure: &store.Failure{Code: store.CodeError, Message: "try again"}},
		10*time.Minute+30*time.Second)
	claim("ledger#payments#flying", 10*time.Minute+30*time.Second, 41*time.Minute)
	claim("ledger#payments#dead", 90*time.Minute, time.Minute)
	hashed, err := store.Key("ledger#payments#secret", true)
	if err != nil {
		t.Fatal(err)
	}
	settle(claim(hashed, time.Hour+time.Minute, time.Minute), store.Settlement{Op: store.OpComplete},
		time.Hour+time.Minute)
}
