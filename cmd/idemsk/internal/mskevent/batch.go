// Package mskevent makes the events that a Kafka event source mapping sends to a function, and cuts them as it does when
// it delivers a part of a batch again. Records stay the JSON that they are, so that broken ones arrive broken.
package mskevent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Batch is one event.
type Batch struct {
	Name       string // for people: a file's name, or the number of a batch
	Partitions []Partition

	payload  []byte            // the event as it came; nil if it has been cut
	envelope []json.RawMessage // names and values of the fields beside the records, in turns
}

// Partition is one entry of an event's records.
type Partition struct {
	ID      string // the event's map key, "<topic>-<number>"
	Records []Record
}

// Record is one record, as JSON.
type Record struct {
	Offset int64
	JSON   json.RawMessage
}

// Parse reads an event. It returns an error if the payload is none, or has a record without an offset: such a record could
// not be told from others in an answer.
func Parse(name string, payload []byte) (*Batch, error) {
	b := &Batch{Name: name, payload: payload}
	err := eachField(payload, func(key string, value json.RawMessage) error {
		if key != "records" {
			quoted, err := json.Marshal(key)
			b.envelope = append(b.envelope, quoted, value)
			return err
		}
		if b.Partitions != nil {
			return errors.New(`it has "records" twice`)
		}
		b.Partitions = []Partition{}
		return eachField(value, func(id string, records json.RawMessage) error {
			p, err := parsePartition(id, records)
			b.Partitions = append(b.Partitions, p)
			return err
		})
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is no event of a Kafka event source mapping: %w", name, err)
	case b.Partitions == nil:
		return nil, fmt.Errorf(`%s is no event of a Kafka event source mapping: it has no "records"`, name)
	}
	return b, nil
}

func parsePartition(id string, records json.RawMessage) (Partition, error) {
	p := Partition{ID: id}
	var raw []json.RawMessage
	if err := json.Unmarshal(records, &raw); err != nil {
		return p, fmt.Errorf("records[%q]: %w", id, err)
	}
	for i, r := range raw {
		var place struct {
			Offset *int64 `json:"offset"`
		}
		if err := json.Unmarshal(r, &place); err != nil || place.Offset == nil {
			return p, fmt.Errorf("records[%q][%d] has no whole number as its offset", id, i)
		}
		p.Records = append(p.Records, Record{Offset: *place.Offset, JSON: r})
	}
	return p, nil
}

// eachField calls f for each member of a JSON object, in its order, which a map would lose.
func eachField(object []byte, f func(key string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return errors.Join(errors.New("it is not a JSON object"), ignoreEOF(err))
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		name, _ := key.(string) // the decoder allows nothing else in an object
		if err := f(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the JSON ends too early: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Len is the number of records.
func (b *Batch) Len() int {
	n := 0
	for i := range b.Partitions {
		n += len(b.Partitions[i].Records)
	}
	return n
}

// Payload is the event as it is sent.
func (b *Batch) Payload() []byte {
	if b.payload != nil {
		return b.payload
	}
	var out bytes.Buffer
	out.WriteByte('{')
	for i := 0; i < len(b.envelope); i += 2 {
		out.Write(b.envelope[i])
		out.WriteByte(':')
		out.Write(b.envelope[i+1])
		out.WriteByte(',')
	}
	out.WriteString(`"records":{`)
	for i := range b.Partitions {
		if i > 0 {
			out.WriteByte(',')
		}
		b.Partitions[i].write(&out)
	}
	out.WriteString("}}")
	b.payload = out.Bytes()
	return b.payload
}

func (p *Partition) write(out *bytes.Buffer) {
	id, _ := json.Marshal(p.ID) // a string encodes
	out.Write(id)
	out.WriteString(":[")
	for i := range p.Records {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(p.Records[i].JSON)
	}
	out.WriteByte(']')
}

// From returns what is delivered again of a batch: of each partition that is named, the records from that offset on.
func (b *Batch) From(offsets map[string]int64) *Batch {
	cut := &Batch{Name: b.Name, envelope: b.envelope}
	for _, p := range b.Partitions {
		lowest, ok := offsets[p.ID]
		if !ok {
			continue
		}
		kept := Partition{ID: p.ID}
		for _, r := range p.Records {
			if r.Offset >= lowest {
				kept.Records = append(kept.Records, r)
			}
		}
		cut.Partitions = append(cut.Partitions, kept)
	}
	return cut
}

// Has reports whether the batch has a record at an offset of a partition.
func (b *Batch) Has(partition string, offset int64) bool {
	for i := range b.Partitions {
		if b.Partitions[i].ID != partition {
			continue
		}
		for _, r := range b.Partitions[i].Records {
			if r.Offset == offset {
				return true
			}
		}
	}
	return false
}

// Topic is the topic in a partition's ID; topics may hold dashes themselves.
func (p *Partition) Topic() string {
	if dash := strings.LastIndexByte(p.ID, '-'); dash > 0 {
		return p.ID[:dash]
	}
	return p.ID
}
