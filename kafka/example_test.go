package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
)

// A handler writes many payments in one statement. A payment that it could not write is delivered again; the
// others are not written twice.
func ExampleBulkHandler() {
	insert := func(_ context.Context, rs []kafka.Record) ([]error, error) {
		errs := make([]error, len(rs))
		rows := 0
		for i, r := range rs {
			if len(r.Value) == 0 {
				errs[i] = errors.New("no such account")
				continue
			}
			rows++
		}
		fmt.Println(rows, "rows inserted")
		return errs, nil
	}
	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	processor, err := kafka.NewProcessor(engine, kafka.BulkHandler(insert), kafka.Config{
		Namespace: "ledger", Key: kafka.RecordKey, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	payments := [][]kafka.Record{{
		{Topic: "payments", Offset: 17, Key: []byte("p-1"), Value: []byte(`{"amount":5}`)},
		{Topic: "payments", Offset: 18, Key: []byte("p-2"), Value: []byte{}},
		{Topic: "payments", Offset: 19, Key: []byte("p-3"), Value: []byte(`{"amount":7}`)},
	}}
	for range 2 {
		messages := processor.Run(context.Background(), "", payments).Partitions[0]
		for i := range messages {
			fmt.Println(" ", messages[i].Record.Source(), messages[i].Outcome.Kind)
		}
	}
	// Output:
	// 2 rows inserted
	//   payments-0@17 Executed
	//   payments-0@18 Retry
	//   payments-0@19 Executed
	// 0 rows inserted
	//   payments-0@17 Replayed
	//   payments-0@18 Retry
	//   payments-0@19 Behind
}
