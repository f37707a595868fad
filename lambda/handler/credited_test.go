package main

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// createOutbox makes the outbox's table. The in-process DynamoDB has no sort keys: the items' IDs, which are unique, are its
// partition key here.
func createOutbox(t *testing.T, db *dynamofake.Server) {
	t.Helper()
	if err := db.CreateTable(dynamofake.Table{Name: dynamooutbox.DefaultTable, HashKey: dynamooutbox.AttrID}); err != nil {
		t.Fatal(err)
	}
}

// wantCredited wants one event in the outbox for each payment, and no other.
func wantCredited(t *testing.T, cfg aws.Config, payments map[string]Payment) {
	t.Helper()
	box, err := dynamooutbox.New(dynamooutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	told := make(map[string]int)
	for item, err := range box.List(t.Context(), dynamodb.NewFromConfig(cfg), dynamooutbox.ListQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range item.Events {
			var c Credited
			if err := json.Unmarshal(e.Value, &c); err != nil {
				t.Fatal(err)
			}
			told[c.PaymentID]++
			paid := payments[c.PaymentID]
			equal(t, "the event of "+c.PaymentID, c, Credited{PaymentID: paid.PaymentID, Account: paid.Account, Amount: paid.Amount, Currency: paid.Currency})
			equal(t, "its topic", e.Topic, "credited")
			equal(t, "its key", string(e.Key), c.Account)
		}
	}
	for id := range payments {
		if told[id] != 1 {
			t.Errorf("of payment %s there are %d events; want 1", id, told[id])
		}
	}
	equal(t, "payments that are told of", len(told), len(payments))
}
