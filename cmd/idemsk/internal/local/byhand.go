package local

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/produce"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// maxBadLines is the maximum number of lines that the answer to a file with bad lines names.
const maxBadLines = 5

// produce produces a record.
func (b *buttons) produce(ctx context.Context, record *console.Record) (string, error) {
	if record == nil {
		return "", fmt.Errorf("%w: there is no record", console.ErrAction)
	}
	out := &kgo.Record{Value: []byte(record.Value)}
	if record.Key != "" {
		out.Key = []byte(record.Key)
	}
	if record.ID != "" {
		out.Headers = []kgo.RecordHeader{{Key: "idempotency-key", Value: []byte(record.ID)}}
	}
	client, err := newProducer(b.run.o, b.run.brokers)
	if err != nil {
		return "", err
	}
	defer client.Close()
	topic := b.run.o.ESM.Topics[0]
	if err := client.ProduceSync(ctx, out).FirstErr(); err != nil {
		return "", fmt.Errorf("producing to %s: %w", topic, err)
	}
	return fmt.Sprintf("Produced %s-%d@%d.", topic, out.Partition, out.Offset), nil
}

// produceFile produces the records of a file, or none if a line is not a record.
func (b *buttons) produceFile(ctx context.Context, text string) (string, error) {
	if len(text) > console.MaxFile {
		return "", fmt.Errorf("%w: the file has %d bytes, and the page takes %d at most", console.ErrFile,
			len(text), console.MaxFile)
	}
	read := produce.Read(strings.NewReader(text), produce.JSONLine)
	good, bad := 0, []string(nil)
	for _, err := range read {
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		good++
	}
	switch {
	case len(bad) > maxBadLines:
		bad = append(bad[:maxBadLines], fmt.Sprintf("and %d more", len(bad)-maxBadLines))
		fallthrough
	case len(bad) > 0:
		return "", fmt.Errorf("%w: %s", console.ErrFile, strings.Join(bad, "; "))
	case good == 0:
		return "", fmt.Errorf("%w: the file has no records", console.ErrFile)
	}
	client, err := newProducer(b.run.o, b.run.brokers)
	if err != nil {
		return "", err
	}
	defer client.Close()
	topic := b.run.o.ESM.Topics[0]
	n, err := produce.Write(ctx, client, topic, produce.Read(strings.NewReader(text), produce.JSONLine),
		func(*kgo.Record) {})
	if err != nil {
		return "", fmt.Errorf("%d of %d records were produced: %w", n, good, err)
	}
	return fmt.Sprintf("Produced %s to %s.", term.Plural(n, "record", "records"), topic), nil
}
