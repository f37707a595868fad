package consumer_test

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// A process consumes a topic until it gets SIGTERM. It then drains and ends. A program that is configured by
// environment variables uses package app/process instead.
func Example() {
	book := kafka.HandlerFunc(func(_ context.Context, r kafka.Record) ([]byte, error) {
		fmt.Println("booking", string(r.Value))
		return nil, nil
	})
	// in production a store that processes share
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(engine, book, consumer.Config{
		Brokers: []string{"127.0.0.1:9092"}, Topics: []string{"payments"}, Group: "ledger",
		Records: kafka.Config{Key: kafka.RecordKey},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := c.Run(ctx); err != nil {
		log.Print(err)
	}
}
