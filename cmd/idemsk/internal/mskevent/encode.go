package mskevent

import (
	"encoding/json"
	"fmt"
	"strconv"
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

// signedBytes is how the event source mapping writes the value of a header: as Java's signed bytes.
type signedBytes []byte

func (v signedBytes) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	out := []byte{'['}
	for i, b := range v {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, int64(int8(b)), 10)
	}
	return append(out, ']'), nil
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
		record, err := m.encode()
		if err != nil {
			return nil, err
		}
		id := m.Topic + "-" + strconv.Itoa(int(m.Partition))
		at, ok := index[id]
		if !ok {
			at = len(b.Partitions)
			index[id] = at
			b.Partitions = append(b.Partitions, Partition{ID: id})
		}
		b.Partitions[at].Records = append(b.Partitions[at].Records, Record{Offset: m.Offset, JSON: record})
	}
	return b, nil
}

func (m *Message) encode() (json.RawMessage, error) {
	headers := make([]map[string]signedBytes, 0, len(m.Headers))
	for _, h := range m.Headers {
		headers = append(headers, map[string]signedBytes{h.Key: h.Value})
	}
	out, err := json.Marshal(struct {
		Topic         string                   `json:"topic"`
		Partition     int32                    `json:"partition"`
		Offset        int64                    `json:"offset"`
		Timestamp     int64                    `json:"timestamp"`
		TimestampType string                   `json:"timestampType,omitempty"`
		Key           []byte                   `json:"key"`
		Value         []byte                   `json:"value"`
		Headers       []map[string]signedBytes `json:"headers"`
	}{m.Topic, m.Partition, m.Offset, m.Timestamp, m.TimestampType, m.Key, m.Value, headers})
	if err != nil {
		return nil, fmt.Errorf("encoding the record %s-%d@%d: %w", m.Topic, m.Partition, m.Offset, err)
	}
	return out, nil
}
