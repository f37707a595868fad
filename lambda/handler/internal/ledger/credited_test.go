package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// createOutbox makes the outbox's table. The in-process DynamoDB has no sort keys: the items' IDs, which are
// unique, are its partition key here.
func createOutbox(t *testing.T, db *dynamofake.Server) {
	t.Helper()
	if err := db.CreateTable(dynamofake.Table{Name: dynamooutbox.DefaultTable,
		HashKey: dynamooutbox.AttrID}); err != nil {
		t.Fatal(err)
	}
}

// wantCredited wants one event in the outbox for each payment that was made, and no other.
func wantCredited(t *testing.T, cfg aws.Config, made map[string][]tally.Credit) {
	t.Helper()
	box, err := dynamooutbox.New(dynamooutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	payments := make(map[string]tally.Credit)
	for _, credits := range made {
		for _, c := range credits {
			payments[c.PaymentID] = c
		}
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
			equal(t, "the event of "+c.PaymentID, c, Credited(payments[c.PaymentID]))
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

func TestOutboxIsRefusedWithoutTransactions(t *testing.T) {
	for says, env := range map[string]map[string]string{
		`IDEMSK_OUTBOX is "on": want off with IDEMSK_LEDGER=plain`:   {"IDEMSK_LEDGER": "plain"},
		`IDEMSK_OUTBOX is "on": want off with IDEMSK_STORE=memory`:   {"IDEMSK_STORE": "memory"},
		`IDEMSK_OUTBOX is "on": want off with IDEMSK_STORE=none`:     {"IDEMSK_STORE": "none"},
		`IDEMSK_OUTBOX is "on": want off with IDEMSK_STORE=redis`:    {"IDEMSK_STORE": "redis"},
		`IDEMSK_OUTBOX is "yes": want one of off, on`:                {"IDEMSK_OUTBOX": "yes"},
		`IDEMSK_OUTBOX_TOPIC is "a topic": want a Kafka topic's nam`: {"IDEMSK_OUTBOX_TOPIC": "a topic"},
		`IDEMSK_OUTBOX_TABLE is "a table": want a table's name of 3`: {"IDEMSK_OUTBOX_TABLE": "a table"},
	} {
		t.Run(says, func(t *testing.T) {
			defaults := map[string]string{"IDEMSK_OUTBOX": "on", "AWS_LAMBDA_FUNCTION_NAME": "ledger"}
			vars := app.NewVars(func(name string) (string, bool) {
				value, ok := env[name]
				if def := defaults[name]; def != "" && !ok {
					return def, true
				}
				return value, ok
			})
			_, err := lambda.New(t.Context(), Build(nil), vars, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v; want %s", err, says)
			}
		})
	}
}

// failing is an outbox that refuses every event.
type failing struct{}

var errFull = errors.New("the disk is full")

func (failing) Record(context.Context, []outbox.Event) error { return errFull }

// A payment whose event can't be published is dead-lettered, and one is retried if the outbox fails. Neither
// is booked without its event.
func TestPaymentIsNotBookedWithoutItsEvent(t *testing.T) {
	for name, c := range map[string]struct {
		maxSize     int
		cause       error
		permanent   bool
		unavailable bool
	}{
		"too large":             {100, outbox.ErrInvalidEvent, true, false},
		"a fault of the outbox": {0, errFull, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := &bookkeeper{ledger: newMemoryLedger(), events: "credited", simulation: newSimulation()}
			_, err := b.book(outbox.NewContext(t.Context(), failing{}, c.maxSize), good(), msk.Record{})
			if !errors.Is(err, c.cause) {
				t.Errorf("%v; want %v", err, c.cause)
			}
			equal(t, "permanent", idem.IsPermanent(err), c.permanent)
			equal(t, "unavailable", idem.IsUnavailable(err), c.unavailable)
		})
	}
}
