package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/produce"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

func produceVerb() verb {
	return verb{
		name: "produce", args: "[FILE]", short: "writes records from a file or from standard input to a Kafka topic",
		about: `
Writes one record for each line of FILE, or of standard input, and prints its position: topic-partition@offset. Blank lines are skipped.
With --format value a line is a value, and all records have the same --key and --header. With --format json a line is a record:

  {"key": "account-1", "value": {"amount": 500}, "headers": {"idempotency-key": "pay-1"}}

A string value is written as its text, null as a tombstone, and any other JSON unchanged. Records with the same key go to one
partition, in their order. The command stops with exit status 1 at the first record that can't be written.
` + kafkaHelp,
		examples: []string{
			`echo '{"account":"a","amount":500}' | idemsk produce --brokers 127.0.0.1:9092 --key a --header idempotency-key=pay-1`,
			"idemsk produce --brokers 127.0.0.1:9092 --topic payments --format json payments.jsonl",
		},
		flags: func(fs *flag.FlagSet) action {
			var p produceCommand
			p.declareBrokers(fs)
			p.declareRegion(fs)
			fs.StringVar(&p.topic, "topic", "payments", "the `TOPIC`")
			fs.StringVar(&p.format, "format", produce.FormatValue, "the `FORMAT` of a line: value or json")
			fs.Func("key", "the `KEY` of all records (default: no key)", func(text string) error { p.key = []byte(text); return nil })
			fs.Func("header", "a header as `NAME=VALUE`; may be repeated", p.headers.add)
			return p.run
		},
	}
}

type produceCommand struct {
	awsFlags
	kafkaFlags
	topic, format string
	key           []byte
	headers       nameValues
}

// parser returns the function that parses a line.
func (p *produceCommand) parser() (func(line []byte) (*kgo.Record, error), error) {
	var headers []kgo.RecordHeader
	for _, h := range p.headers {
		headers = append(headers, kgo.RecordHeader{Key: h.name, Value: []byte(h.value)})
	}
	switch {
	case p.format == produce.FormatValue:
		return produce.ValueLine(p.key, headers), nil
	case p.format != produce.FormatJSON:
		return nil, usagef("--format is %q: want %s or %s", p.format, produce.FormatValue, produce.FormatJSON)
	case p.key != nil || headers != nil:
		return nil, usagef("--key and --header are for --format value: in JSON each line has its own")
	}
	return produce.JSONLine, nil
}

// deliveryTimeout is the longest time that a record waits for the brokers.
const deliveryTimeout = 30 * time.Second

func (p *produceCommand) run(ctx context.Context, s Streams, args []string) (err error) {
	parse, err := p.parser()
	switch {
	case err != nil:
		return err
	case len(args) > 1:
		return usagef("want one FILE, got %d", len(args))
	}
	from := io.NopCloser(s.In)
	if len(args) == 1 {
		if from, err = os.Open(args[0]); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	client, err := p.connect(ctx, p.region, kgo.ClientID("idemsk-produce"), kgo.RecordDeliveryTimeout(deliveryTimeout), kgo.UnknownTopicRetries(1))
	if err != nil {
		return err
	}
	defer client.Close()
	var printErr error
	n, err := produce.Write(ctx, client, p.topic, produce.Read(from, parse), func(r *kgo.Record) {
		if _, err := fmt.Fprintf(s.Out, "%s-%d@%d\n", r.Topic, r.Partition, r.Offset); err != nil {
			printErr = err
		}
	})
	s.sayf("idemsk produce: %s written to %s\n", term.Plural(n, "record", "records"), term.Escape(p.topic))
	return errors.Join(err, printErr)
}
