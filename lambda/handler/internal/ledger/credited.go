package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// Credited is the value of the event that is published for a booking. Its key is the account, so the events
// of an account are in order.
type Credited struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Amount    int64  `json:"amount"` // in minor units
	Currency  string `json:"currency"`
}

// Publishing is the topic of the ledger's events, "" if none are published.
type Publishing string

// readPublishing reads IDEMSK_OUTBOX and IDEMSK_OUTBOX_TOPIC. Events are published in the transaction of the
// booking. IDEMSK_OUTBOX=on is refused for ledgers without transactions.
func readPublishing(base *app.Base, atomic bool) Publishing {
	const name, topicName = "IDEMSK_OUTBOX", "IDEMSK_OUTBOX_TOPIC"
	if base.Vars.OneOf(name, "off", "on") != "on" {
		return ""
	}
	switch store := base.Config.Store; {
	case store == app.StorePostgres:
	case store != app.StoreDynamoDB:
		base.Vars.Fail(name, "on", "off with IDEMSK_STORE="+store+
			", where no event can commit with its booking")
	case !atomic:
		base.Vars.Fail(name, "on", "off with IDEMSK_LEDGER=plain, where no event can commit with its booking; or take IDEMSK_LEDGER=atomic")
	}
	topic := base.Vars.String(topicName, "credited")
	if _, err := outbox.Prepare(context.Background(), []outbox.Event{{Topic: topic}}, 0); err != nil {
		base.Vars.Fail(topicName, topic, "a Kafka topic's name: up to 249 letters, digits, '.', '_' and '-'")
	}
	return Publishing(topic)
}

// publish publishes the event of a booking, in the booking's transaction.
func (p Publishing) publish(ctx context.Context, paid *Payment) error {
	if p == "" {
		return nil
	}
	value, err := json.Marshal(Credited{PaymentID: paid.PaymentID, Account: paid.Account, Amount: paid.Amount,
		Currency: paid.Currency})
	if err == nil {
		err = outbox.Publish(ctx, outbox.Event{Topic: string(p), Key: []byte(paid.Account), Value: value})
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, outbox.ErrInvalidEvent): // the event is too large, and a retry can't succeed
		return idem.Permanent(err)
	}
	// Otherwise the outbox failed, so the payment is retried.
	return idem.Unavailable(err)
}

// inDynamoDB returns a wrapper that makes a handler publish its events in its DynamoDB transactions, nil if
// no events are published.
func (p Publishing) inDynamoDB(base *app.Base) (func(msk.HandlerFunc) msk.HandlerFunc, error) {
	if p == "" {
		return nil, nil //nolint:nilnil // see above
	}
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: base.Vars.Table("IDEMSK_OUTBOX_TABLE",
		dynamooutbox.DefaultTable)})
	if err != nil {
		return nil, fmt.Errorf("the outbox: %w", err)
	}
	return func(h msk.HandlerFunc) msk.HandlerFunc { return dynamooutbox.Handler(box, h) }, nil
}
