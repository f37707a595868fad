package msk

import (
	"cmp"
	"errors"
	"slices"

	"github.com/idemsk/idemsk/kafka"
)

// ErrNotKafka means that the payload is not a Kafka event. Every error of [Decode] wraps it. The message
// describes what arrived instead, and the position.
var ErrNotKafka = errors.New("not a Kafka event as Lambda's event source mapping delivers it")

// Event is one payload of a Kafka event source mapping, for Amazon MSK or a self-managed cluster.
// https://docs.aws.amazon.com/lambda/latest/dg/with-msk.html shows the JSON.
type Event struct {
	// Source is the event's eventSource: "aws:kafka" for MSK, "SelfManagedKafka" (or, in older events,
	// "aws:SelfManagedKafka") for other clusters, empty if the event has none.
	Source string
	// SourceARN is the cluster's ARN. It is empty for a self-managed cluster.
	SourceARN string
	// BootstrapServers are the brokers, as host:port separated by commas.
	BootstrapServers string
	// Outcomes reports that the response is to have the outcome of each record (Response.Outcomes). The event
	// source does not ask for them, the tool's redrive does: it deletes a dead letter only by the outcome of
	// its record.
	Outcomes bool
	// Partitions has the records of each partition that has any, in the order of their offsets. Records with
	// one offset keep the order in which they arrived. The partitions are sorted by topic, then by number.
	Partitions [][]kafka.Record
}

// hasTopic reports whether records of a topic are in the event.
func (e *Event) hasTopic(topic string) bool {
	return slices.ContainsFunc(e.Partitions, func(records []kafka.Record) bool {
		return len(records) > 0 && records[0].Topic == topic
	})
}

// cluster returns the cluster's ARN, or else its bootstrap servers.
func (e *Event) cluster() string { return cmp.Or(e.SourceARN, e.BootstrapServers) }
