package kafka

import (
	"fmt"
	"iter"
	"strconv"
	"time"
)

// Record is one Kafka record. All its data are copies: it does not refer to the payload, and appending to a
// slice of a record does not change another record.
type Record struct {
	// Topic, Partition and Offset identify the record. They are also set in a record that can't be decoded.
	// Topic and Partition are those of the event's map key, because a partial batch response names the map
	// key.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is in UTC with a resolution of 1 ms. It is the zero time if the record has none (Kafka's −1).
	// The producer sets it: with a producer that uses micro- or nanoseconds it is after the year 9999, for
	// which [time.Time.MarshalJSON] fails.
	Timestamp time.Time
	// TimestampType is what TimestampTypeOf returns, or another value of the event source.
	TimestampType string
	// Key and Value are the produced bytes. Nil means null in Kafka, whether the field is null or absent in
	// the event. An empty key or value is empty but not nil. A record whose Value is nil is a tombstone.
	Key, Value []byte
	// Headers are in the record's order. A name may occur more than once.
	Headers []Header
	// KeySchema and ValueSchema are the metadata from a schema registry, nil if there are none.
	KeySchema, ValueSchema *Schema

	// Undecodable is the reason if the record can't be decoded, else nil. Topic, Partition and Offset are set
	// then, and those of the other fields that could be decoded; the invalid ones are empty.
	Undecodable *DecodeError
}

// TimestampTypeOf returns the name of a type of timestamps, which in Kafka's protocol is a number. An unknown
// type, such as a client's -1, is that of a record without a timestamp.
func TimestampTypeOf(kind int8) string {
	switch kind {
	case 0:
		return "CREATE_TIME"
	case 1:
		return "LOG_APPEND_TIME"
	}
	return "NO_TIMESTAMP_TYPE"
}

// Header is one header of a Kafka record. A null value is nil; an empty one is empty but not nil.
type Header struct {
	Key   string
	Value []byte
}

// Schema is the metadata that an event source mapping with a schema registry adds about a record's key or
// value (keySchemaMetadata, valueSchemaMetadata). A field that the event does not have is empty.
// https://docs.aws.amazon.com/lambda/latest/dg/services-consume-kafka-events.html
type Schema struct {
	// ID is the schema's ID in the registry: a UUID in AWS Glue, a number or a GUID in Confluent's.
	ID string
	// DataFormat is the format of the record in Kafka: "AVRO", "JSON" or "PROTOBUF".
	DataFormat string
}

// DecodeError means that one record of an event can't be decoded. A retry can't succeed.
type DecodeError struct {
	// Source is the record's place: "<topic>-<partition>@<offset>".
	Source string
	// Field is the first JSON field that is invalid: "value", "headers".
	Field string
	// Err is the cause.
	Err error
	// Raw is the record as it arrived.
	Raw []byte
}

// Error names the record, the field and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("record %s can't be decoded: %s: %v", e.Source, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Source returns the record's place as logs, errors and stored entries contain it:
// "<topic>-<partition>@<offset>".
func (r *Record) Source() string {
	name := append(r.appendPartition(make([]byte, 0, 64)), '@')
	return string(strconv.AppendInt(name, r.Offset, 10))
}

// PartitionID returns "<topic>-<partition>", as events and answers of Lambda contain it.
func (r *Record) PartitionID() string { return string(r.appendPartition(make([]byte, 0, 64))) }

func (r *Record) appendPartition(name []byte) []byte {
	return strconv.AppendInt(append(append(name, r.Topic...), '-'), int64(r.Partition), 10)
}

// Tombstone reports whether the record's value is null, by which a producer requests the deletion of its key.
// It is false for a record that can't be decoded.
func (r *Record) Tombstone() bool { return r.Value == nil && r.Undecodable == nil }

// Header yields the values of all headers with that name, in order, nil for a null value. Header names are
// case sensitive in Kafka, and a name may occur more than once.
func (r *Record) Header(name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range r.Headers {
			if r.Headers[i].Key == name && !yield(r.Headers[i].Value) {
				return
			}
		}
	}
}
