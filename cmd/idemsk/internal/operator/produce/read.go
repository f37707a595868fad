// Package produce reads records from text and writes them to a Kafka topic. It is also the verb that does so.
package produce

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/text/textfile"
)

// Formats of lines.
const (
	FormatValue = "value" // the line is the record's value
	FormatJSON  = "json"  // {"key":…,"value":…,"headers":{…}}
)

// MaxLine is the maximum length of a line in bytes. It is more than the default limit of brokers.
const MaxLine = 10 << 20

// Line is a record that was read.
type Line struct {
	Number int // counted from 1
	Record *kgo.Record
}

// Read yields the record of each line that is not blank, or the error of parse. It stops at a line that is
// too long.
func Read(r io.Reader, parse func(line []byte) (*kgo.Record, error)) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		lines := bufio.NewScanner(textfile.New(r))
		lines.Buffer(nil, MaxLine)
		n := 0
		for lines.Scan() {
			n++
			if len(bytes.TrimSpace(lines.Bytes())) == 0 {
				continue
			}
			out, err := parse(lines.Bytes())
			if err != nil {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			if !yield(Line{Number: n, Record: out}, err) {
				return
			}
		}
		if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
			yield(Line{}, fmt.Errorf("line %d has more than %d bytes", n+1, MaxLine))
		} else if err != nil {
			yield(Line{}, fmt.Errorf("reading records: %w", err))
		}
	}
}

// ValueLine parses a line as the value of a record with the key, which may be nil, and the headers.
func ValueLine(key []byte, headers []kgo.RecordHeader) func(line []byte) (*kgo.Record, error) {
	return func(line []byte) (*kgo.Record, error) {
		return &kgo.Record{Key: key, Value: bytes.Clone(line), Headers: headers}, nil
	}
}

// JSONLine parses a line as a record in JSON. The value is written as its text if it is a string, as a
// tombstone if it is null, and otherwise as JSON, unchanged.
func JSONLine(line []byte) (*kgo.Record, error) {
	var record struct {
		Key     *string           `json:"key"`
		Value   json.RawMessage   `json:"value"`
		Headers map[string]string `json:"headers"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&record); err != nil {
		return nil, fmt.Errorf(`want a record such as {"key":"k","value":{"a":1},"headers":{"idempotency-key":"pay-1"}}: %w`, err)
	}
	if d.More() {
		return nil, errors.New("want one record in a line, and nothing after it")
	}
	if record.Value == nil {
		return nil, errors.New(`the record has no "value" (null is a tombstone)`)
	}
	out := new(kgo.Record)
	if record.Key != nil {
		out.Key = []byte(*record.Key)
	}
	text := ""
	switch {
	case string(record.Value) == "null":
	case json.Unmarshal(record.Value, &text) == nil:
		out.Value = []byte(text)
	default:
		out.Value = record.Value
	}
	for _, name := range slices.Sorted(maps.Keys(record.Headers)) {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: name, Value: []byte(record.Headers[name])})
	}
	return out, nil
}
