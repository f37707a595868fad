package msk

import (
	"cmp"
	"errors"

	"github.com/idemsk/idemsk/kafka"
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
	Records []kafka.Record
}

// records are those of the event's partitions.
func (e *Event) records() [][]kafka.Record {
	all := make([][]kafka.Record, len(e.Partitions))
	for i := range e.Partitions {
		all[i] = e.Partitions[i].Records
	}
	return all
}
