package topic_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/topic"
)

// A processor sends the records that can never succeed to a topic.
func ExampleNew() {
	letters, err := topic.New(topic.Config{
		Topic:   "payments-dead-letters",
		Options: []kgo.Opt{kgo.SeedBrokers("127.0.0.1:9092")},
	})
	if err != nil {
		panic(err)
	}
	defer letters.Close()
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		panic(err)
	}
	book := kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) {
		return nil, idem.Permanent(errors.New("no such account"))
	})
	_, err = kafka.NewProcessor(engine, book, kafka.Config{Namespace: "ledger", DeadLetters: letters})
	fmt.Println(err)
	// Output: <nil>
}

// A consumer of the topic reads the failure from the headers. The record's own headers come first.
func ExampleParse() {
	header := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name,
			Value: []byte(value)}
	}
	l, err := topic.Parse(&kgo.Record{Topic: "payments-dead-letters", Value: []byte("-5 EUR"),
		Headers: []kgo.RecordHeader{
			header("idempotency-key", "p-1"),
			header("idemsk-dead-letter", "1"), header("idemsk-source-topic", "payments"),
			header("idemsk-source-offset", "42"),
			header("idemsk-error-code", "permanent"),
			header("idemsk-error-message", "the amount is negative"),
		}})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %q: %s\n", l.Source(), l.Value, l.Error.Message)
	// Output: payments-0@42 "-5 EUR": the amount is negative
}
