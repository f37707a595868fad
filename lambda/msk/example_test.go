package msk_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// A payment that comes three times, twice in one batch and once in the next, is booked once. In a function,
// the consumer is what lambda.Start gets; package app wires all of this from the environment.
func Example() {
	type payment struct {
		Account string `json:"account"`
		Amount  int    `json:"amount"`
	}
	balances := map[string]int{}
	book := func(ctx context.Context, p payment, _ msk.Record) (string, error) {
		balances[p.Account] += p.Amount
		attempt, _ := idem.AttemptFrom(ctx)
		fmt.Printf("booked %d to %s for key %s\n", p.Amount, p.Account, attempt.Key)
		return "booked", nil
	}

	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := msk.New(engine, msk.JSON(book), eventsource.Config{
		Records:  kafka.Config{Namespace: "ledger", Logger: slog.New(slog.DiscardHandler)},
		Failures: eventsource.FailPartial,
		Report: func(_ context.Context, r kafka.Report) {
			fmt.Printf("%d records: %d executed, %d replayed, %d duplicates\n", r.Records, r.Executed,
				r.Replayed, r.Duplicates)
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	first := `{"eventSource":"aws:kafka","records":{"payments-0":[` + paymentAt(17) + `,` + paymentAt(18) +
		`]}}`
	second := `{"eventSource":"aws:kafka","records":{"payments-0":[` + paymentAt(19) + `]}}`
	for _, event := range []string{first, second} {
		answer, err := consumer.Invoke(context.Background(), []byte(event))
		fmt.Println(string(answer), err)
	}
	fmt.Println("balance:", balances["acc-1"])
	// Output:
	// booked 1250 to acc-1 for key ledger#payments#p-1
	// 2 records: 1 executed, 0 replayed, 1 duplicates
	// {"batchItemFailures":[]} <nil>
	// 1 records: 0 executed, 1 replayed, 0 duplicates
	// {"batchItemFailures":[]} <nil>
	// balance: 1250
}

// paymentAt is one payment, at an offset, as Lambda delivers it: the value in base64, the header in bytes.
func paymentAt(offset int) string {
	return fmt.Sprintf(`{"topic":"payments","partition":0,"offset":%d,"timestamp":1767225600000,"timestampType":"CREATE_TIME",`+
		`"value":"eyJhY2NvdW50IjoiYWNjLTEiLCJhbW91bnQiOjEyNTB9","headers":[{"idempotency-key":[112,45,49]}]}`,
		offset)
}

// Errors say what is to become of a record. Any other error may pass, and the record is tried again.
func ExampleHandler() {
	var handle msk.HandlerFunc = func(_ context.Context, r msk.Record) ([]byte, error) {
		switch {
		case r.Tombstone():
			return nil, nil // nothing to do
		case len(r.Value) > 1<<20:
			// to the dead letters
			return nil, idem.Permanent(fmt.Errorf("a payment of %d bytes", len(r.Value)))
		default:
			// again later, without blaming the record
			return nil, idem.Unavailable(fmt.Errorf("the bank is closed"))
		}
	}
	_, err := handle(context.Background(), msk.Record{Value: []byte("{}")})
	fmt.Println(err, idem.IsUnavailable(err))
	// Output: the bank is closed true
}

// One path gives the text found there, several give a JSON array.
func ExampleJSONKey() {
	r := &msk.Record{Value: []byte(`{"account":"acc-1","payment":{"id":17}}`)}
	for _, paths := range [][]string{{"$.payment.id"}, {"$.account", "$.payment.id"}} {
		key, err := kafka.JSONKey(paths...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key(context.Background(), r))
	}
	// Output:
	// 17 <nil>
	// ["acc-1",17] <nil>
}
