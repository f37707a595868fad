package dynamostore_test

import (
	"context"
	"errors"
	"strings"
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

func TestWrongTableIsAConfigurationError(t *testing.T) {
	t.Parallel()
	wrongTableIsAConfigurationError(t, fake(t).URL(), "wrong-key", attributeOf("id", "S"))
}

// wrongTableIsAConfigurationError checks every operation, alone and in a batch, on a table with another key.
func wrongTableIsAConfigurationError(t *testing.T, url, table string, key ...types.AttributeDefinition) {
	t.Helper()
	db := client(newWire(t), url)
	createTable(t, db, table, key...)
	st, err := dynamostore.New(db, dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	misconfigured := func(op string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "idempotencyKey") ||
			!strings.Contains(err.Error(), table) ||
			!strings.Contains(err.Error(), "IDEMSK_TABLE") {
			t.Errorf("%s: %v; want ErrMisconfigured that names the attribute, the table and the variable", op,
				err)
		}
	}
	misconfigured("check", st.Check(t.Context()))
	for op, err := range everyOperation(t, st) {
		if op != "list" { // a scan works on any table
			misconfigured(op, err)
		}
	}
	claims := []store.ClaimRequest{
		{Key: "a", Owner: "o", Lease: time.Minute, Retention: time.Hour},
		{Key: "b", Owner: "o", Lease: time.Minute, Retention: time.Hour},
	}
	for range 2 { // the second one may read first
		for _, res := range st.Claim(t.Context(), claims) {
			misconfigured("claim of two", res.Err)
		}
	}
	settled := st.Settle(t.Context(), []store.Settlement{
		{Op: store.OpComplete, Key: "a", Token: 1, Owner: "o"},
		{Op: store.OpRelease, Key: "b", Token: 1, Owner: "o"},
	})
	for _, err := range settled {
		misconfigured("settlement of two", err)
	}
}

func attributeOf(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
	return types.AttributeDefinition{AttributeName: &name, AttributeType: kind}
}

// createTable creates a table with a partition key and, if two attributes are given, a sort key.
func createTable(t *testing.T, db *dynamodb.Client, name string, key ...types.AttributeDefinition) {
	t.Helper()
	schema := []types.KeySchemaElement{{AttributeName: key[0].AttributeName, KeyType: types.KeyTypeHash}}
	if len(key) > 1 {
		schema = append(schema, types.KeySchemaElement{AttributeName: key[1].AttributeName,
			KeyType: types.KeyTypeRange})
	}
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: key,
		KeySchema: schema,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A handler is not called without protection because of a wrong configuration, also while the circuit breaker
// is open.
func TestWrongTableDoesNotFailOpen(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ResourceNotFoundException", "AccessDeniedException"} {
		s := newStore(t, client(newWire(t), fakeWith(t, func(op string, _ []byte) dynamofake.Fault {
			if op == "PutItem" {
				return dynamofake.Fault{Error: &dynamofake.Error{Status: 400, Code: code}}
			}
			return dynamofake.Fault{}
		}).URL()), dynamostore.Config{})
		engine, err := idem.New(s, idem.Config{FailOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 6 { // with the circuit breaker open, too
			out := engine.Do(t.Context(),
				idem.Task{Key: "k", Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
					t.Error("the handler was called")
					return nil, nil
				})})
			if out.Kind != idem.StoreDown || !errors.Is(out.Err, store.ErrMisconfigured) ||
				!strings.Contains(out.Err.Error(), code) {
				t.Errorf("%s: %v, %v; want StoreDown with the reason", code, out.Kind, out.Err)
			}
		}
	}
}

func TestCheckReadsTheTTL(t *testing.T) {
	t.Parallel()
	checkReadsTheTTL(t, fake(t).URL())
}

func checkReadsTheTTL(t *testing.T, url string) {
	t.Helper()
	const table = "ttl"
	db := client(newWire(t), url)
	createTable(t, db, table, attributeOf(dynamostore.AttrKey, "S"))
	st, err := dynamostore.New(db, dynamostore.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	ttl := func(attribute string, on bool) {
		t.Helper()
		if _, err := db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName: aws.String(table),
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &attribute,
				Enabled: &on},
		}); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(texts ...string) {
		t.Helper()
		err := st.Check(t.Context())
		for _, text := range texts {
			if !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), text) {
				t.Errorf("%v; want ErrMisconfigured with %q", err, text)
			}
		}
	}
	wants("table ttl has no TTL", "update-time-to-live", "AttributeName=expiryTimestamp")
	ttl("other", true)
	wants(`is "other"`, "expiryTimestamp")
	ttl("other", false)
	ttl(dynamostore.AttrExpiry, true)
	if err := st.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, err := range st.List(t.Context(), store.ListQuery{}) {
		t.Errorf("an entry, or %v; want nothing: a check writes nothing", err)
	}
}

// A role needs no permission to read the TTL.
func TestCheckWithoutPermissionToReadTheTTL(t *testing.T) {
	t.Parallel()
	s := newStore(t, client(newWire(t), fakeWith(t, func(op string, _ []byte) dynamofake.Fault {
		if op == "DescribeTimeToLive" {
			return dynamofake.Fault{Error: &dynamofake.Error{Status: 400, Code: "AccessDeniedException"}}
		}
		return dynamofake.Fault{}
	}).URL()), dynamostore.Config{})
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A store that can't be reached is no configuration error: a process starts nevertheless.
func TestCheckOfAThrottledTable(t *testing.T) {
	t.Parallel()
	s := newStore(t, client(newWire(t), fakeWith(t, func(op string, _ []byte) dynamofake.Fault {
		if op == "UpdateItem" {
			return dynamofake.Fault{Error: dynamofake.Throttled()}
		}
		return dynamofake.Fault{}
	}).URL()), dynamostore.Config{})
	if err := s.Check(t.Context()); err == nil || errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("%v; want another error than ErrMisconfigured", err)
	}
}
