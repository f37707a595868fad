package sqs_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// A payment that comes in two messages is booked once. In a function, app/lambda wires all of this from the
// environment, for the events of queues and of Kafka.
func Example() {
	type payment struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
	}
	book := func(ctx context.Context, p payment, r kafka.Record) (string, error) {
		attempt, _ := idem.AttemptFrom(ctx)
		fmt.Printf("booked %d for key %s, message %s\n", p.Amount, attempt.Key, sqs.MessageID(&r))
		return "booked", nil
	}
	key, err := kafka.JSONKey("$.id")
	if err != nil {
		log.Fatal(err)
	}
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := sqs.New(engine, kafka.JSON(book), eventsource.Config{
		Records:  kafka.Config{Namespace: "ledger", Key: key, Logger: slog.New(slog.DiscardHandler)},
		Failures: eventsource.FailPartial,
	})
	if err != nil {
		log.Fatal(err)
	}
	const message = `{"messageId":"%s","body":"{\"id\":\"p-1\",\"amount\":1250}",` +
		`"eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:us-east-1:123456789012:payments"}`
	for _, id := range []string{"m-1", "m-2"} {
		answer, err := consumer.Invoke(context.Background(), fmt.Appendf(nil, `{"Records":[`+message+`]}`, id))
		fmt.Println(string(answer), err)
	}
	// Output:
	// booked 1250 for key ledger#payments#p-1, message m-1
	// {"batchItemFailures":[]} <nil>
	// {"batchItemFailures":[]} <nil>
}
