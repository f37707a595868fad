package kafka

import (
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

// Config says how records are handled. Every field's zero value stands for its default.
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
	// Concurrency is the number of records handled at once (default batch.DefaultConcurrency).
	Concurrency int
	// Bulk is called instead of the Handler, with many records in a call, if not nil. Order and Concurrency have no meaning then.
	Bulk BulkHandler
	// DeadLetters takes records that can never succeed. Without it none is given up: a record that fails holds up its
	// partition until it succeeds.
	DeadLetters DeadLetters
	// Unprotected calls the handler for every record that can be decoded, without keys or claims: for comparison.
	Unprotected bool
	// Function is the name of the function or of the process, for dead letters.
	Function string
	// Logger gets a line a batch, and one for each record that was not simply executed (default slog.Default()).
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Key == nil {
		c.Key = HeaderKey(DefaultKeyHeader)
	}
	if c.Fingerprint == nil {
		c.Fingerprint = ValueFingerprint
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
	bad(c.Concurrency >= 0, "Concurrency is %d: want 1 or more", c.Concurrency)
	if len(errs) > 0 {
		return fmt.Errorf("kafka: %w: %w", idem.ErrInvalidConfig, errors.Join(errs...))
	}
	return nil
}
