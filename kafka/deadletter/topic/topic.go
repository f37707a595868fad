// Package topic sends dead letters to a Kafka topic, and reads them from there.
//
// # The record of a dead letter
//
// It has the key, the value and the headers of the record that failed, byte for byte; null stays null. So
// every consumer can read it as it reads the source topic. After the record's own headers come those of
// idemsk. The first is idemsk-dead-letter, with the version of the form. The others are in this order, as
// text, and are missing if they are empty or zero, except partition and offset:
//
//	idemsk-dead-letter            1
//	idemsk-source-topic           the place of the record
//	idemsk-source-partition
//	idemsk-source-offset
//	idemsk-source-timestamp       epoch ms
//	idemsk-source-timestamp-type  CREATE_TIME, LOG_APPEND_TIME
//	idemsk-cluster                the fields of kafka.DeadLetter
//	idemsk-function
//	idemsk-idempotency-key        as stored
//	idemsk-token
//	idemsk-attempts
//	idemsk-error-code
//	idemsk-error-message
//	idemsk-error-time             RFC 3339
//	idemsk-undecoded              true: the value is the record as it arrived, because it could not be decoded
//	idemsk-value-omitted          bytes: the topic refuses a record with this value, which is still at its place,
//	                              or in the object in S3
//	idemsk-value-object           the object in S3 with the whole letter as JSON (package kafka/deadletter/s3)
//	idemsk-omitted                what else was omitted: headers, undecoded, key
//
// A record may already have headers with these names, for example if it is itself a dead letter. They stay.
// The last idemsk-dead-letter counts: what is before it belongs to the record, what is after it is of this
// letter. Consumers that look a header up by its name take the last one, as Headers.lastHeader of Kafka's
// Java client does.
//
// # The topic
//
// It must exist: a consumer process ends at its start if it does not. Its cleanup.policy must be delete: compaction would remove the letters of a Kafka key but
// the last. Its retention is how long an operator may take. Letters with the same Kafka key are in one
// partition, in the order in which they were sent.
package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/semaphore"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// DefaultTimeout is the default of Config.Timeout.
const DefaultTimeout = 10 * time.Second

// MinTimeout is the least Config.Timeout.
const MinTimeout = time.Second

// Config configures a Topic.
type Config struct {
	// Topic is the name of the topic.
	Topic string
	// Options are options of the Kafka client: kgo.SeedBrokers and, if necessary, TLS and SASL. The producer
	// is always idempotent and waits for all in-sync replicas; options can't change this.
	Options []kgo.Opt
	// Timeout is the maximum duration of Send (default DefaultTimeout, at least MinTimeout). A connection
	// that is silent for half of it is replaced, and the letter is sent again.
	Timeout time.Duration
}

// Topic is a Kafka topic for dead letters. It is safe for concurrent use.
type Topic struct {
	client  *kgo.Client
	name    string
	timeout time.Duration
	batches *semaphore.Weighted // a letter that must have a batch of its own acquires it whole

	mu      sync.Mutex
	kept    bool // the topic was seen not to be compacted
	closed  bool
	running sync.WaitGroup
}

var _ kafka.DeadLetters = (*Topic)(nil)

const (
	// maxBatchBytes disables the client's own limit; the broker decides.
	maxBatchBytes = 64 << 20
	// maxBuffered is never reached, because callers wait for their letters.
	maxBuffered = 1 << 30
	// metadataMinAge is the minimum pause between metadata requests for a missing topic.
	metadataMinAge = 250 * time.Millisecond
	// attemptShare is the part of the timeout that a broker has for its replicas, and the network for a
	// response.
	attemptShare = 4
	// wholeBatch is more than the number of concurrent callers.
	wholeBatch = 1 << 30
)

// New returns a topic. It does not connect. The caller must close the topic. It returns idem.ErrInvalidConfig
// (wrapped), which names the invalid field.
func New(cfg Config) (*Topic, error) {
	if !kafka.ValidTopic(cfg.Topic) {
		return nil, fmt.Errorf("topic: %w: Topic is %q: want %s", idem.ErrInvalidConfig, cfg.Topic,
			kafka.TopicNameRule)
	}
	if cfg.Timeout != 0 && cfg.Timeout < MinTimeout {
		return nil, fmt.Errorf("topic: %w: Timeout is %v: want 0, for %v, or at least %v",
			idem.ErrInvalidConfig, cfg.Timeout, DefaultTimeout, MinTimeout)
	}
	t := &Topic{name: cfg.Topic, timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
		batches: semaphore.NewWeighted(wholeBatch)}
	options := append([]kgo.Opt{kgo.ClientID("idemsk-dead-letters")}, cfg.Options...)
	client, err := kgo.NewClient(append(options,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(maxBatchBytes),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.UnknownTopicRetries(1), kgo.MetadataMinAge(metadataMinAge),
		kgo.ProduceRequestTimeout(t.timeout/attemptShare), kgo.RequestTimeoutOverhead(t.timeout/attemptShare),
		kgo.RecordDeliveryTimeout(t.timeout),
		kgo.AllowIdempotentProduceCancellation())...) // a letter may be sent twice, and Send must end
	if err != nil {
		return nil, fmt.Errorf("topic: %w: %w", idem.ErrInvalidConfig, err)
	}
	t.client = client
	if off, _ := client.OptValue(kgo.DisableIdempotentWrite).(bool); off {
		client.Close()
		return nil, fmt.Errorf("topic: %w: kgo.DisableIdempotentWrite: a retry of the client could overtake a later letter", idem.ErrInvalidConfig)
	}
	return t, nil
}

// Destination returns the topic, which must not be consumed by who sends the letters.
func (t *Topic) Destination() kafka.Destination { return kafka.Destination{Topic: t.name} }

// Close closes the connections. Calls of Send that are in progress, and later calls, fail.
func (t *Topic) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.client.Close()
	t.running.Wait()
}

var errClosed = errors.New("the topic is closed")

// Send implements kafka.DeadLetters. If it returns nil, all in-sync replicas of the topic have the letter. It
// returns when ctx ends, or after Config.Timeout; the letter may have been written then, and will be sent
// again.
func (t *Topic) Send(ctx context.Context, l kafka.DeadLetter) error {
	done, err := t.start(ctx, l)
	if err == nil {
		select {
		case err = <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("topic: sending the dead letter of %s to the topic %s: %w%s", l.Source(), t.name,
			err, hint(err))
	}
	return nil
}

// start sends a letter in a goroutine, because the client does not always return when the context ends.
func (t *Topic) start(ctx context.Context, l kafka.DeadLetter) (<-chan error, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	done := make(chan error, 1)
	t.running.Go(func() {
		limit, cancel := context.WithTimeout(ctx, t.timeout)
		defer cancel()
		done <- t.send(limit, l)
	})
	return done, nil
}

// send sends a letter. It reduces one that the broker refuses because of its size.
func (t *Topic) send(ctx context.Context, l kafka.DeadLetter) error {
	if err := t.check(ctx); err != nil {
		return err
	}
	if len(l.Undecoded) > 0 {
		l.Value = nil // the undecoded record contains it
	}
	err := t.produce(ctx, &l, 1)
	for tooLarge(err) {
		// with other letters, the batch may have been too large and not this letter
		if err = t.produce(ctx, &l, wholeBatch); !tooLarge(err) {
			break
		}
		smaller, none := l.Reduce()
		if none != nil {
			return fmt.Errorf("%w: raise the topic's max.message.bytes, or set IDEMSK_DEAD_LETTER_BUCKET, so that S3 has what is larger: %w",
				none, err)
		}
		l = smaller
	}
	return err
}

// produce sends a letter, with a share of the current batches or with all.
func (t *Topic) produce(ctx context.Context, l *kafka.DeadLetter, share int64) error {
	if err := t.batches.Acquire(ctx, share); err != nil {
		return err
	}
	defer t.batches.Release(share)
	r := record(l)
	r.Topic = t.name
	return t.client.ProduceSync(ctx, r).FirstErr()
}

// tooLarge reports whether a record batch is refused because of its size.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}
