package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// Order defines which records are handled one after another.
type Order uint8

// The orders.
const (
	// DefaultOrder is ByPartition, in package consumer ByKey.
	DefaultOrder Order = iota
	// ByPartition: all records of a partition.
	ByPartition
	// ByKey: the records of a partition with the same Kafka key. Records without a key are unordered.
	ByKey
	// Unordered: all records are unordered.
	Unordered
)

// MissingKey decides what happens to a record that has no idempotency key.
type MissingKey uint8

// The policies for a missing key.
const (
	// Reject: send it to the dead letters.
	Reject MissingKey = iota
	// Process: handle it once per topic, partition and offset. Redeliveries are recognised, a producer's
	// duplicates are not.
	Process
)

// Within changes the context of a handler: it gets the context that the handler would have, and returns the
// one that it gets. It is safe for concurrent use.
type Within func(context.Context) context.Context

// Config configures a Processor. Every field's zero value stands for its default.
type Config struct {
	// Key returns a record's idempotency key (default HeaderKey(DefaultKeyHeader)).
	Key KeyFunc
	// Fingerprint returns a record's fingerprint, which identifies the request (default ValueFingerprint).
	Fingerprint FingerprintFunc
	// Namespace is the name of the consumer: the function or its consumer group. It is the prefix of every
	// stored key, so that two consumers that read one topic and share a table keep separate entries. It is
	// required, and must not contain '#'. After a change of the namespace all redelivered records are handled as new.
	Namespace string
	// KeyScope decides whether keys are unique within a topic or within the namespace (default TopicScope).
	KeyScope KeyScope
	// MissingKey decides what happens to records without a key (default: Reject).
	MissingKey MissingKey
	// Order is the order in which records are handled (default ByPartition; that of package kafka/consumer is
	// ByKey).
	Order Order
	// Concurrency is the number of calls of a HandlerFunc at once (default idem.DefaultConcurrency). The engine's
	// CommitWindow bounds it too.
	Concurrency int
	// Calls is the number of calls of a BulkHandler or of BulkAttempts at once (default 1). They share the engine's
	// CommitWindow.
	Calls int
	// CallRecords is the maximum number of records in a call of a BulkHandler or of BulkAttempts (default: as many as
	// the engine's CommitWindow allows).
	CallRecords int
	// Batch is called with the records of each Processor.Run before they are handled, if not nil. The context
	// that it returns is that of the batch, and of its handlers. end is called when the batch has ended. A
	// Stream has no batches.
	Batch func(ctx context.Context, partitions [][]Record) (inside context.Context, end func(*Batch))
	// Poll is called by package kafka/consumer with the records of each poll that returned some, before they
	// are handled, if not nil. began is when the poll began. within returns the context of the handler of
	// each of these records.
	Poll func(ctx context.Context, began time.Time, records []Record) (within Within)
	// DeadLetters receives records that can never succeed. If it is nil, no record is given up: a record that
	// fails is retried until it succeeds. It blocks its partition, in a Stream its lane.
	DeadLetters DeadLetters
	// Function is the name of the function or of the process, for dead letters.
	Function string
	// Logger gets a line for each batch of Processor.Run, and one for each record with any other outcome than
	// a plain execution (default slog.Default()).
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Key == nil {
		c.Key = HeaderKey(DefaultKeyHeader)
	}
	if c.Fingerprint == nil {
		c.Fingerprint = ValueFingerprint
	}
	if c.Order == DefaultOrder {
		c.Order = ByPartition
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!strings.Contains(c.Namespace, keySeparator),
		"Namespace is %q: it must not contain %q, which separates it from the key",
		c.Namespace, keySeparator)
	bad(c.Namespace != "",
		"Namespace is empty: want the name of the consumer, such as its function or consumer group, "+
			"so that consumers that share a table keep separate entries")
	bad(c.KeyScope <= NamespaceScope, "KeyScope is %d: want TopicScope or NamespaceScope", c.KeyScope)
	bad(c.MissingKey <= Process, "MissingKey is %d: want Reject or Process", c.MissingKey)
	bad(c.Order <= Unordered, "Order is %d: want DefaultOrder, ByPartition, ByKey or Unordered", c.Order)
	bad(c.Concurrency >= 0, "Concurrency is %d: want 1 or more", c.Concurrency)
	bad(c.Calls >= 0, "Calls is %d: want 1 or more", c.Calls)
	bad(c.CallRecords >= 0, "CallRecords is %d: want 1 or more", c.CallRecords)
	if len(errs) > 0 {
		return fmt.Errorf("kafka: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	return nil
}
