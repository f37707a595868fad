// Package mskevent writes and reads the events of a Kafka event source mapping. It keeps the JSON of each
// record unchanged, so that invalid records stay invalid.
package mskevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/internal/rawjson"
)

// Record is a record of an event.
type Record struct {
	PartitionID string // the event's map key, "<topic>-<number>"
	Offset      int64
	JSON        json.RawMessage // after Parse a part of the event's payload
}

// Place is the position of a record. Its Partition is the event's map key, "<topic>-<number>".
type Place struct {
	Partition string
	Offset    int64
}

// String returns topic-partition@offset.
func (p Place) String() string { return p.Partition + "@" + strconv.FormatInt(p.Offset, 10) }

// Place returns the position of the record.
func (r *Record) Place() Place { return Place{Partition: r.PartitionID, Offset: r.Offset} }

// Topic returns the topic in the partition's ID. A topic may contain dashes.
func (r *Record) Topic() string {
	if dash := strings.LastIndexByte(r.PartitionID, '-'); dash > 0 {
		return r.PartitionID[:dash]
	}
	return r.PartitionID
}

// Event is a recorded event.
type Event struct {
	Name     string // for messages, for example a file name
	Payload  []byte // unchanged
	Envelope Envelope
	Records  []Record // one partition after another, in the order of the payload
	// not nil if Payload is not a valid event: there are no Records, and only the Payload can be delivered
	Broken error
}

// Parse reads an event. It returns an error if the payload is not an event, or if a record has no offset,
// because an answer could not name that record.
func Parse(name string, payload []byte) (*Event, error) {
	e := &Event{Name: name, Payload: payload}
	var source []byte // the fields beside the records
	known := false
	err := valid(payload)
	if err == nil {
		err = fields(payload, func(key string, value []byte) error {
			if key != "records" {
				source = append(append(append(appendString(source, key), ':'), value...), ',')
				return nil
			}
			if known {
				return errors.New(`it has "records" twice`)
			}
			known = true
			return fields(value, e.parsePartition)
		})
	}
	if err == nil && !known {
		err = errors.New(`it has no "records"`)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no event of a Kafka event source mapping: %w", name, err)
	}
	e.Envelope = open(source)
	return e, nil
}

func (e *Event) parsePartition(id string, records []byte) error {
	switch text := string(records[:1]); {
	case text == "n": // null
		return nil
	case text != "[":
		return fmt.Errorf("records[%q] is no list", id)
	}
	i := 0
	return rawjson.Parts(records, func(_ string, start, end int) error {
		var offset *int64
		r := records[start:end:end]
		err := fields(r, func(key string, value []byte) error { // encoding/json would read "Offset" as well
			if key != "offset" {
				return nil
			}
			return json.Unmarshal(value, &offset)
		})
		if err != nil || offset == nil {
			return fmt.Errorf("records[%q][%d] has no whole number as its offset", id, i)
		}
		e.Records = append(e.Records, Record{PartitionID: id, Offset: *offset, JSON: r})
		i++
		return nil
	})
}

// IsKafka reports whether a payload is a JSON object whose eventSource is that of an event source mapping for
// Kafka. It does not read the payload beyond that field, which event source mappings write first.
func IsKafka(payload []byte) bool {
	d := json.NewDecoder(bytes.NewReader(payload))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return false
		}
		if key == "eventSource" {
			var source string
			err := json.Unmarshal(value, &source)
			return err == nil && (source == "aws:kafka" || source == "SelfManagedKafka" ||
				source == "aws:SelfManagedKafka")
		}
	}
	return false
}

// valid returns an error for a text that is not a JSON object.
func valid(text []byte) error {
	if err := rawjson.Check(text); err != nil {
		return err
	}
	return object(text)
}

// object returns an error for a value that is not an object.
func object(text []byte) error {
	if bytes.TrimLeft(text, " \t\r\n")[0] != '{' {
		return errors.New("it is not a JSON object")
	}
	return nil
}

// fields calls f for each member of an object, in order.
func fields(text []byte, f func(key string, value []byte) error) error {
	if err := object(text); err != nil {
		return err
	}
	return rawjson.Parts(text, func(key string, start, end int) error { return f(key, text[start:end:end]) })
}
