package mskevent

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Message is a Kafka record to be put into an event. A nil Key or Value is Kafka's null.
type Message struct {
	Topic         string
	Partition     int32
	Offset        int64
	Timestamp     int64 // epoch ms
	TimestampType string
	Key, Value    []byte
	Headers       []Header
}

// Header is a header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// New returns the event of some messages, with one partition after another in the order of their first message.
func New(name string, messages []Message) (*Batch, error) {
	b := &Batch{Name: name, Partitions: []Partition{}, envelope: []json.RawMessage{
		json.RawMessage(`"eventSource"`), json.RawMessage(`"aws:kafka"`),
		json.RawMessage(`"eventSourceArn"`), json.RawMessage(`"arn:aws:kafka:us-east-1:000000000000:cluster/idemsk/replay"`),
		json.RawMessage(`"bootstrapServers"`), json.RawMessage(`"b-1.idemsk.invalid:9098"`),
	}}
	index := make(map[string]int)
	for i := range messages {
		m := &messages[i]
		id := m.Topic + "-" + strconv.Itoa(int(m.Partition))
		at, ok := index[id]
		if !ok {
			at = len(b.Partitions)
			index[id] = at
			b.Partitions = append(b.Partitions, Partition{ID: id})
		}
		b.Partitions[at].Records = append(b.Partitions[at].Records, Record{Offset: m.Offset, JSON: m.AppendJSON(nil)})
	}
	return b, nil
}

// SetCluster has the event come from a cluster: the ARN of one in MSK, or the bootstrap servers of one that is self-managed.
func (b *Batch) SetCluster(name string) {
	source, field := "aws:kafka", "eventSourceArn"
	if !strings.HasPrefix(name, "arn:") {
		source, field = "SelfManagedKafka", "bootstrapServers"
	}
	b.envelope = nil
	for _, text := range []string{"eventSource", source, field, name} {
		b.envelope = append(b.envelope, appendString(nil, text))
	}
}

// AppendJSON appends the message as a record of an event.
func (m *Message) AppendJSON(dst []byte) []byte {
	dst = appendString(append(dst, `{"topic":`...), m.Topic)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(m.Partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), m.Offset, 10)
	dst = strconv.AppendInt(append(dst, `,"timestamp":`...), m.Timestamp, 10)
	if m.TimestampType != "" {
		dst = appendString(append(dst, `,"timestampType":`...), m.TimestampType)
	}
	dst = appendBase64(append(dst, `,"key":`...), m.Key)
	dst = appendBase64(append(dst, `,"value":`...), m.Value)
	dst = append(dst, `,"headers":[`...)
	for i, h := range m.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSigned(append(appendString(append(dst, '{'), h.Key), ':'), h.Value)
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}

// appendString appends a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string encodes
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func appendBase64(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	return append(base64.StdEncoding.AppendEncode(append(dst, '"'), b), '"')
}

// appendSigned appends the value of a header as the event source mapping writes it: as Java's signed bytes.
func appendSigned(dst, b []byte) []byte {
	if b == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, c := range b {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(int8(c)), 10)
	}
	return append(dst, ']')
}

// Message reads a record back into what was produced: what AppendJSON writes, not what broken records hold.
func (r *Record) Message() (Message, error) {
	var in struct {
		Topic         string
		Partition     int32
		Offset        int64
		Timestamp     int64
		TimestampType string
		Key, Value    []byte
		Headers       []map[string][]int8
	}
	if err := json.Unmarshal(r.JSON, &in); err != nil {
		return Message{}, fmt.Errorf("the record at offset %d can't be read: %w", r.Offset, err)
	}
	m := Message{
		Topic: in.Topic, Partition: in.Partition, Offset: in.Offset, Timestamp: in.Timestamp, TimestampType: in.TimestampType,
		Key: in.Key, Value: in.Value,
	}
	for _, header := range in.Headers {
		for key, signed := range header {
			m.Headers = append(m.Headers, Header{Key: key, Value: unsigned(signed)})
		}
	}
	return m, nil
}

func unsigned(signed []int8) []byte {
	if signed == nil {
		return nil
	}
	b := make([]byte, len(signed))
	for i, c := range signed {
		b[i] = byte(c)
	}
	return b
}
