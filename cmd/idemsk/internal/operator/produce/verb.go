package produce

import (
	"context"
	_ "embed" // help.txt
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

//go:embed help.txt
var help string

// Verb returns the verb produce.
func Verb() command.Verb {
	return command.Verb{
		Name: "produce", Help: help,
		Short: "writes records from a file or from standard input to a Kafka topic",
		Flags: func(fs *flag.FlagSet) command.Action {
			var p invocation
			p.DeclareBrokers(fs)
			p.DeclareRegion(fs)
			fs.StringVar(&p.topic, "topic", "payments", "the `TOPIC`")
			fs.StringVar(&p.format, "format", FormatValue, "the `FORMAT` of a line: value or json")
			fs.Func("key", "the `KEY` of all records (default: no key)",
				func(text string) error { p.key = []byte(text); return nil })
			fs.Func("header", "a header as `NAME=VALUE`; may be repeated", p.headers.Add)
			return p.run
		},
	}
}

// invocation is a run of the verb with its flags.
type invocation struct {
	flags.AWS
	flags.Kafka
	topic, format string
	key           []byte
	headers       flags.NameValues
}

// parser returns the function that parses a line.
func (p *invocation) parser() (func(line []byte) (*kgo.Record, error), error) {
	var headers []kgo.RecordHeader
	for _, h := range p.headers {
		headers = append(headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
	}
	switch {
	case p.format == FormatValue:
		return ValueLine(p.key, headers), nil
	case p.format != FormatJSON:
		return nil, command.Usagef("--format is %q: want %s or %s", p.format, FormatValue, FormatJSON)
	case p.key != nil || headers != nil:
		return nil, command.Usagef("--key and --header are for --format value: in JSON each line has its own")
	}
	return JSONLine, nil
}

// deliveryTimeout is the longest time that a record waits for the brokers.
const deliveryTimeout = 30 * time.Second

func (p *invocation) run(ctx context.Context, s command.Streams, args []string) (err error) {
	parse, err := p.parser()
	switch {
	case err != nil:
		return err
	case len(args) > 1:
		return command.Usagef("want one FILE, got %d", len(args))
	}
	from := io.NopCloser(s.In)
	if len(args) == 1 {
		if from, err = os.Open(args[0]); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	client, err := p.Connect(ctx, p.Region, kgo.ClientID("idemsk-produce"),
		kgo.RecordDeliveryTimeout(deliveryTimeout), kgo.UnknownTopicRetries(1))
	if err != nil {
		return err
	}
	defer client.Close()
	var printErr error
	n, err := Write(ctx, client, p.topic, Read(from, parse), func(r *kgo.Record) {
		if _, err := fmt.Fprintf(s.Out, "%s-%d@%d\n", r.Topic, r.Partition, r.Offset); err != nil {
			printErr = err
		}
	})
	s.Sayf("idemsk produce: %s written to %s\n", term.Plural(n, "record", "records"), term.Escape(p.topic))
	return errors.Join(err, printErr)
}
