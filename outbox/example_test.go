package outbox_test

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/outbox"
)

// printer takes the place of a store's transaction.
type printer struct{}

func (printer) Record(_ context.Context, events []outbox.Event) error {
	for _, e := range events {
		fmt.Printf("%s %s %s\n", e.Topic, e.Key, e.Value)
	}
	return nil
}

// A handler publishes an event. In production a store puts the transaction into the context.
func ExamplePublish() {
	handler := func(ctx context.Context) error {
		// The account is credited here, in the same transaction.
		return outbox.Publish(ctx, outbox.Event{Topic: "accounts", Key: []byte("alice"),
			Value: []byte(`{"credited":10}`)})
	}
	ctx := outbox.NewContext(context.Background(), printer{}, 0)
	if err := handler(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: accounts alice {"credited":10}
}
