package esm

import (
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/internal/kafkatime"
	"github.com/idemsk/idemsk/internal/mskevent"
	records "github.com/idemsk/idemsk/kafka"
)

// Record is a record that the mapping delivers.
type Record struct {
	mskevent.Record

	Partition int32 // 0 for a record of a recorded event
	Timestamp int64 // epoch ms; negative if the record has none
	Key       []byte
}

// NewRecord encodes a Kafka record as in an event.
func NewRecord(r *kgo.Record) Record {
	m := mskevent.Message{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: kafkatime.Millis(r),
		TimestampType: records.TimestampTypeOf(r.Attrs.TimestampType()), Key: r.Key, Value: r.Value,
	}
	if c := conversionOf(r); c != nil {
		m.KeySchema, m.ValueSchema = c.keySchema, c.valueSchema
	}
	if r.Attrs.TimestampType() < 0 {
		m.Timestamp = -1
	}
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, mskevent.Header(h))
	}
	encoded := mskevent.Record{PartitionID: m.PartitionID(), Offset: m.Offset,
		JSON: m.AppendJSON(make([]byte, 0, encodedSize(r)))}
	return Record{Record: encoded, Partition: r.Partition, Timestamp: m.Timestamp, Key: r.Key}
}

// recordedRecord returns a record of a recorded event. If its timestamp can't be parsed, it has none.
func recordedRecord(r mskevent.Record) Record {
	var in struct {
		Timestamp *int64 `json:"timestamp"`
	}
	record := Record{Record: r, Timestamp: -1}
	if json.Unmarshal(r.JSON, &in) == nil && in.Timestamp != nil {
		record.Timestamp = *in.Timestamp
	}
	return record
}

// encodedSize estimates the size of a record in an event.
func encodedSize(r *kgo.Record) int {
	const frame, perHeader, perHeaderByte = 160, 16, 4
	size := frame + len(r.Topic) + (len(r.Key)+len(r.Value))*4/3
	for _, h := range r.Headers {
		size += perHeader + len(h.Key) + perHeaderByte*len(h.Value)
	}
	return size
}
