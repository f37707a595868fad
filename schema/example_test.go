package schema_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/schema"
	avroformat "github.com/idemsk/idemsk/schema/avro"
	"github.com/idemsk/idemsk/schema/confluent"
)

// The idempotency key is a field of an Avro record.
func Example() {
	type booking struct {
		ID     string `avro:"id"`
		Amount int64  `avro:"amount"`
	}
	const text = `{"type":"record","name":"Booking","fields":[{"name":"id","type":"string"},{"name":"amount","type":"long"}]}`
	server := srfake.New()
	server.SeedSchema("bookings-value", 1, 7, sr.Schema{Schema: text})

	registry, err := confluent.New([]string{server.URL()})
	if err != nil {
		log.Fatal(err)
	}
	decoder, err := schema.New(schema.Config{Registry: registry,
		Formats: []schema.Format{avroformat.Format{}}})
	if err != nil {
		log.Fatal(err)
	}
	book := schema.Handler(decoder, func(_ context.Context, b booking, r kafka.Record) (string, error) {
		fmt.Println(r.Source(), b.ID, b.Amount)
		return "booked", nil
	})
	key, err := kafka.JSONKey("$.id")
	if err != nil {
		log.Fatal(err)
	}
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	processor, err := kafka.NewProcessor(engine, book, kafka.Config{
		Namespace: "ledger", Key: kafka.OfValue(decoder.JSON, key), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	value, err := avro.MustParse(text).AppendEncode([]byte{0, 0, 0, 0, 7}, booking{"b-1", 1250})
	if err != nil {
		log.Fatal(err)
	}
	processor.Run(context.Background(), "", [][]kafka.Record{{
		{Topic: "bookings", Offset: 1, Value: value}, {Topic: "bookings", Offset: 2, Value: value},
	}})
	server.Close()
	// Output: bookings-0@1 b-1 1250
}
