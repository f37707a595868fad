package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// queueEvent is the event of a FIFO queue with payments, each in the group of its account. The ID of a message
// is "m-" and that of its payment.
func queueEvent(t *testing.T, payments ...Payment) []byte {
	t.Helper()
	records := make([]map[string]any, len(payments))
	for i, p := range payments {
		body, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		records[i] = map[string]any{
			"messageId": "m-" + p.PaymentID, "receiptHandle": "handle", "body": string(body),
			"attributes":  map[string]string{"SentTimestamp": "1767225600000", "MessageGroupId": p.Account},
			"eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:payments.fifo",
			"messageAttributes": map[string]any{}, "awsRegion": "eu-central-1",
		}
	}
	event, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// The program handles the messages of a queue with the same handler and variables as records of Kafka, and both
// in one process.
func processOfAQueue(t *testing.T) {
	db, cfg := startDynamo(t, dynamofake.Config{})
	env := dynamoEnv(db)
	env["IDEMSK_KEY"], env["IDEMSK_FAILURES"], env["IDEMSK_RETRY_DELAY"] = "json:$.paymentId", "partial", "0s"
	env["IDEMSK_BATCHING"] = "off" // a crash repeats none of the payments before
	p := startProcess(t, program, env)
	pay := func(id, account, simulate string) Payment {
		return Payment{PaymentID: id, Account: account, Amount: 100, Currency: "EUR", Simulate: simulate}
	}
	answers := func(want string, event []byte) {
		t.Helper()
		result, err := p.Invoke(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "answer", string(result.Payload), want)
	}
	again := pay("2", "acc-1", "retry:1")
	answers(`{"batchItemFailures":[{"itemIdentifier":"m-2"},{"itemIdentifier":"m-3"}]}`,
		queueEvent(t, pay("1", "acc-1", ""), again, pay("3", "acc-1", ""), pay("4", "acc-2", "")))
	const settled = `{"batchItemFailures":[]}`
	answers(settled, queueEvent(t, again, pay("3", "acc-1", ""), pay("1", "acc-1", "")))
	answers(settled, kafkaEvent(t, 0, map[int][]Payment{0: {pay("5", "acc-2", "")}}))

	_, err := p.Invoke(t.Context(), queueEvent(t, pay("6", "acc-1", ""), pay("7", "acc-1", "exit")))
	var crash *runtimeapi.CrashError
	if !errors.As(err, &crash) {
		t.Fatalf("error %v; want that of a crash", err)
	}
	answers(settled, queueEvent(t, pay("6", "acc-1", "")))
	for account, want := range map[string]int{"acc-1": 4, "acc-2": 2} {
		balance, bookings := booked(t, cfg, account+"/EUR")
		equal(t, "bookings of "+account, bookings, fmt.Sprint(want))
		equal(t, "balance of "+account, balance, fmt.Sprint(100*want))
	}
}
