package mskevent

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Message is a Kafka record to be added to an event. A nil Key or Value is Kafka's null.
type Message struct {
	Topic         string
	Partition     int32
	Offset        int64
	Timestamp     int64 // epoch ms
	TimestampType string
	Key, Value    []byte
	Headers       []Header
	// KeySchema and ValueSchema are what an event source with a schema registry adds; nil without one.
	KeySchema, ValueSchema *Schema
}

// Schema identifies the schema of a key or a value.
type Schema struct{ ID, DataFormat string }

// Header is a header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// PartitionID returns the event's map key of the message, "<topic>-<number>".
func (m *Message) PartitionID() string { return m.Topic + "-" + strconv.Itoa(int(m.Partition)) }

// Record returns the message as a record of an event.
func (m *Message) Record() Record {
	return Record{PartitionID: m.PartitionID(), Offset: m.Offset, JSON: m.AppendJSON(nil)}
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
	dst = m.appendData(append(dst, ','))
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

// The fields of a record with its key and its value.
const (
	fieldKey         = "key"
	fieldValue       = "value"
	fieldKeySchema   = "keySchemaMetadata"
	fieldValueSchema = "valueSchemaMetadata"
)

// appendData appends the key and the value, with their schemas.
func (m *Message) appendData(dst []byte) []byte {
	dst = appendBase64(append(dst, `"`+fieldKey+`":`...), m.Key)
	dst = appendBase64(append(dst, `,"`+fieldValue+`":`...), m.Value)
	dst = appendSchema(dst, `,"`+fieldKeySchema+`":`, m.KeySchema)
	return appendSchema(dst, `,"`+fieldValueSchema+`":`, m.ValueSchema)
}

func appendSchema(dst []byte, name string, s *Schema) []byte {
	if s == nil {
		return dst
	}
	dst = appendString(append(append(dst, name...), `{"dataFormat":`...), s.DataFormat)
	return append(appendString(append(dst, `,"schemaId":`...), s.ID), '}')
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

// appendSigned appends the value of a header as the event source mapping encodes it: as Java's signed bytes.
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
