package msk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/idemsk/idemsk/idem"
)

// Order says which records must be handled one after another.
type Order uint8

// The orders.
const (
	ByPartition Order = iota // a partition's records, as Kafka orders them
	ByKey                    // a partition's records with one Kafka key; records without a key are in no order
	Unordered                // none
)

// MissingKey says what to do with a record that has no idempotency key.
type MissingKey uint8

// The policies for a missing key.
const (
	Reject  MissingKey = iota // to the dead letters
	Process                   // handle it once for its place in Kafka: a redelivery is recognised, a producer's duplicate is not
)

// Failures says how records that are not settled are reported to the ESM.
type Failures uint8

// The ways to report.
const (
	// FailBatch makes the invocation fail, so that the ESM delivers the whole batch again. What had completed is a cheap
	// duplicate then.
	FailBatch Failures = iota
	// FailPartial names the records. It needs FunctionResponseTypes: ReportBatchItemFailures at the ESM: without that, the
	// ESM takes any answer as success, and the records are lost.
	FailPartial
)

// DefaultConcurrency is the number of units in flight unless Config says otherwise.
const DefaultConcurrency = 32

// Config configures a Consumer. Every field's zero value stands for its default.
type Config struct {
	// Key finds a record's idempotency key (default HeaderKey(DefaultKeyHeader)).
	Key KeyFunc
	// Fingerprint says what a record asks for (default ValueFingerprint).
	Fingerprint FingerprintFunc
	// Namespace names who consumes: the function, or its consumer group. It is put before every key, so that two consumers
	// that read one topic and share a table do not take each other's records for done. It must be given, unless Unprotected,
	// and must not contain '#'. Another namespace has seen nothing yet: all that is delivered again counts as new.
	Namespace string
	// KeyScope says whether keys are those of a topic or of the whole namespace (default TopicScope).
	KeyScope KeyScope
	// MissingKey is for records without a key (default: to the dead letters).
	MissingKey MissingKey
	// Order is the order that must be kept (default ByPartition).
	Order Order
	// Concurrency is the number of records handled at once (default DefaultConcurrency).
	Concurrency int
	// Failures is how the ESM is told (default FailBatch, which is safe with any ESM).
	Failures Failures
	// DeadLetters takes records that can never succeed. Without it none is given up: a record that fails holds up its
	// partition until it succeeds.
	DeadLetters DeadLetters
	// Unprotected calls the handler for every record that can be decoded, without keys or claims: for comparison.
	Unprotected bool
	// Function is the function's name, for dead letters.
	Function string
	// Logger gets a line a batch, and one for each record that was not simply executed (default slog.Default()).
	Logger *slog.Logger
	// Report is called at the end of every batch, if not nil; see EMF.
	Report func(ctx context.Context, r Report)
}

func (c Config) withDefaults() Config {
	if c.Key == nil {
		c.Key = HeaderKey(DefaultKeyHeader)
	}
	if c.Fingerprint == nil {
		c.Fingerprint = ValueFingerprint
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
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
	bad(!strings.Contains(c.Namespace, keySeparator), "Namespace is %q: it must not contain %q, which ends it in a stored key",
		c.Namespace, keySeparator)
	bad(c.Namespace != "" || c.Unprotected, "Namespace is empty: want the name of the consumer, such as its function or consumer group, "+
		"so that another one with the same table keeps its own keys")
	bad(c.KeyScope <= NamespaceScope, "KeyScope is %d: want TopicScope or NamespaceScope", c.KeyScope)
	bad(c.MissingKey <= Process, "MissingKey is %d: want Reject or Process", c.MissingKey)
	bad(c.Order <= Unordered, "Order is %d: want ByPartition, ByKey or Unordered", c.Order)
	bad(c.Concurrency >= 1, "Concurrency is %d: want 1 or more", c.Concurrency)
	bad(c.Failures <= FailPartial, "Failures is %d: want FailBatch or FailPartial", c.Failures)
	if len(errs) > 0 {
		return fmt.Errorf("msk: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	return nil
}
