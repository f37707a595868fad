package layercall_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// A Caller is the handler of a consumer process. Its Runtime brings an event to a function in any language,
// here in this process, and the function's answer names the record that failed.
func ExampleCaller() {
	function := func(_ context.Context, event []byte) ([]byte, error) {
		decoded, err := msk.Decode(event)
		if err != nil {
			return nil, err
		}
		for _, r := range decoded.Partitions[0] {
			fmt.Printf("%s: %s\n", r.Source(), r.Value)
		}
		return []byte(`{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-0","offset":1}}]}`), nil
	}
	caller := &layercall.Caller{Runtime: function, Cluster: "b-1:9092", MaxEvent: 6 << 20}

	engine, err := idem.New(memstore.New(memstore.Config{BatchSize: 25}), idem.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	processor, err := kafka.NewProcessor(engine, kafka.BulkAttempts(caller.Many), kafka.Config{
		Namespace: "ledger", Key: kafka.RecordKey, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch := processor.Run(context.Background(), "b-1:9092", [][]kafka.Record{{
		{Topic: "payments", Offset: 0, Key: []byte("p-1"), Value: []byte("12.50 EUR")},
		{Topic: "payments", Offset: 1, Key: []byte("p-2"), Value: []byte("0.01 EUR")},
	}})
	for i := range batch.Partitions[0] {
		fmt.Println(batch.Partitions[0][i].Outcome.Kind)
	}
	// Output:
	// payments-0@0: 12.50 EUR
	// payments-0@1: 0.01 EUR
	// Executed
	// Retry
}
