package kafka

import (
	"fmt"
	"iter"
	"strconv"
	"time"
)

// Record is one Kafka record. Everything in it is a copy: nothing refers to the payload, and to append to one slice of
// a record changes no other.
type Record struct {
	// Topic, Partition and Offset say which record it is, and are set in a record that can't be decoded too. Topic and
	// Partition are the map key's, so that they are always what a partial batch response names.
	Topic     string
	Partition int32
	Offset    int64
	// Timestamp is in UTC with a resolution of 1 ms, and the zero time where the record has none (Kafka's −1). It is the
	// producer's word: one that stamps in micro- or nanoseconds gives a year after 9999, for which [time.Time.MarshalJSON]
	// fails.
	Timestamp time.Time
	// TimestampType is "CREATE_TIME", "LOG_APPEND_TIME" or what else Kafka called it.
	TimestampType string
	// Key and Value are the bytes that were produced. Nil is Kafka's null, however the event says it (null, or no field);
	// empty but not nil is an empty key or value. A record whose Value is nil is a tombstone.
	Key, Value []byte
	// Headers are in the record's order. A name may come more than once.
	Headers []Header
	// KeySchema and ValueSchema are what a schema registry said, nil where there is none.
	KeySchema, ValueSchema *Schema

	// Undecodable says why the record can't be decoded, nil if it can. It has its Topic, Partition and Offset then, and as many of its
	// other fields as could be read; the wrong ones are left empty.
	Undecodable *DecodeError
}

// Header is one header of a Kafka record. A null value is nil; an empty one is empty but not nil.
type Header struct {
	Key   string
	Value []byte
}

// Schema is the metadata that an event source mapping with a schema registry adds about a record's key or value
// (keySchemaMetadata, valueSchemaMetadata). A field that the event does not have is empty.
// https://docs.aws.amazon.com/lambda/latest/dg/services-consume-kafka-events.html
type Schema struct {
	// ID is the registry's: a UUID in AWS Glue, a number in Confluent's.
	ID string
	// DataFormat is that of the record in Kafka: "AVRO", "JSON" or "PROTOBUF".
	DataFormat string
}

// DecodeError says why one record of an event can't be decoded. No retry will change that.
type DecodeError struct {
	// Source is the record: "<topic>-<partition>@<offset>".
	Source string
	// Field is the JSON field that is wrong, the first if several are: "value", "headers".
	Field string
	// Err is what is wrong with it.
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

// Source names the record as logs, errors and stored items do: "<topic>-<partition>@<offset>".
func (r *Record) Source() string {
	name := make([]byte, 0, 64)
	name = append(append(name, r.Topic...), '-')
	name = append(strconv.AppendInt(name, int64(r.Partition), 10), '@')
	return string(strconv.AppendInt(name, r.Offset, 10))
}

// Tombstone reports whether the record's value is null, by which a producer asks to delete its key. A record that can't
// be decoded is none.
func (r *Record) Tombstone() bool { return r.Value == nil && r.Undecodable == nil }

// Header yields the values of all headers with that name, in order; nil for a null value. Kafka's header names are case
// sensitive, and a name may come more than once.
func (r *Record) Header(name string) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := range r.Headers {
			if r.Headers[i].Key == name && !yield(r.Headers[i].Value) {
				return
			}
		}
	}
}
