package msk

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"
)

// ErrNotKafka is what every error of [Decode] is: the payload as a whole can't be taken as a Kafka event. The message
// around it says what arrived instead, and where.
var ErrNotKafka = errors.New("not a Kafka event as Lambda's event source mapping delivers it")

// Event is one payload of a Kafka event source mapping, for Amazon MSK or a self-managed cluster.
// https://docs.aws.amazon.com/lambda/latest/dg/with-msk.html shows the JSON.
type Event struct {
	// Source is the event's eventSource: "aws:kafka" for MSK, "SelfManagedKafka" (or, in older events,
	// "aws:SelfManagedKafka") for other clusters, empty if the event has none.
	Source string
	// SourceARN is the cluster's ARN; empty for a self-managed one.
	SourceARN string
	// BootstrapServers are the brokers, as host:port separated by commas.
	BootstrapServers string
	// Partitions are sorted by topic, then by number.
	Partitions []Partition
}

// cluster names the event's cluster, as far as the event does.
func (e *Event) cluster() string { return cmp.Or(e.SourceARN, e.BootstrapServers) }

// Partition is the part of an event that comes from one partition of one topic.
type Partition struct {
	// ID is the event's map key, "<topic>-<number>", as a partial batch response must name it. Kafka topics may hold
	// dashes themselves: the number is what follows the last one.
	ID string
	// Topic and Number are the two parts of ID.
	Topic  string
	Number int32
	// Records are ascending by offset. Records with one offset keep the order in which they arrived.
	Records []Record
}

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

	err *DecodeError
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

	raw []byte
}

// Error names the record, the field and the cause.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("record %s can't be decoded: %s: %v", e.Source, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Err returns nil, or a [*DecodeError] if the record can't be decoded. Such a record has its Topic, Partition and Offset,
// and as many of its other fields as could be read; the wrong ones are left empty.
func (r *Record) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

// Raw returns the JSON of a record that can't be decoded, as it arrived, and nil for any other.
func (r *Record) Raw() []byte {
	if r.err == nil {
		return nil
	}
	return r.err.raw
}

// Source names the record as logs, errors and stored items do: "<topic>-<partition>@<offset>".
func (r *Record) Source() string {
	name := make([]byte, 0, 64)
	name = append(append(name, r.Topic...), '-')
	name = append(strconv.AppendInt(name, int64(r.Partition), 10), '@')
	return string(strconv.AppendInt(name, r.Offset, 10))
}

// Tombstone reports whether the record's value is null, by which a producer asks to delete its key. A record that can't
// be decoded is none.
func (r *Record) Tombstone() bool { return r.Value == nil && r.err == nil }

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
