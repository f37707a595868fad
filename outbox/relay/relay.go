// Package relay sends the events of an outbox to Kafka. It does not depend on the outbox's database.
//
// # Guarantees
//
// If Send returns no error for an event, all in-sync replicas of its topic have it. An event is sent only
// after the previous event of its topic and key was published, or in the same wave with it. So a relay that
// retries unconfirmed events in order keeps the order of each key: duplicates may come late, but the first
// record of each event comes after the first record of the previous event. This also holds for several
// relays, and for one that was wrongly considered dead, if each starts at an event before which all events
// are published.
//
// # Implementation
//
// Events are sent in waves, one at a time. The events of a wave for one topic fit into one record batch; an
// event that is too large for this is sent without others of its topic. So an event never makes an event of
// another key fail, and no later event overtakes one that the broker refuses.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/outbox"
)

// DefaultTimeout is the default maximum duration of a wave.
const DefaultTimeout = 10 * time.Second

// The reasons why an event was not published, for errors.Is.
var (
	// ErrRejected means that Kafka rejects the event: it is too large, or its topic does not exist, can't exist
	// by its name, or does not allow writes. A retry fails too, unless the topic is changed.
	ErrRejected = errors.New("relay: Kafka rejects the event")
	// ErrHeldBack means that the event was not sent because a previous event of its topic and key was not
	// published.
	ErrHeldBack = errors.New("relay: the event was held back: a previous event of the same topic and key was not published")
	// ErrUnavailable means that Kafka could not be reached or did not answer in time. The event may have been
	// published.
	ErrUnavailable = errors.New("relay: Kafka did not confirm the event")
)

// ErrInvalidConfig means that a Config is invalid. The error names the reason.
var ErrInvalidConfig = errors.New("relay: invalid configuration")

// Config configures a Producer.
type Config struct {
	// Options are options of the Kafka client: kgo.SeedBrokers and, if necessary, TLS, SASL or
	// kgo.RecordPartitioner. The producer is always idempotent and waits for all in-sync replicas; options
	// can't change this.
	Options []kgo.Opt
	// Timeout is the maximum duration of a wave and of a metadata request. Unconfirmed events then fail with
	// ErrUnavailable. The client is closed, which takes up to a second, and the next events use new
	// connections. Default: DefaultTimeout.
	Timeout time.Duration
}

// MaxSize is the maximum size in bytes, as counted by Event.Size, of an event that a Producer sends, if its
// topic allows it. A broker closes the connection on a request of more than 100 MiB.
const MaxSize = 64 << 20

const (
	// maxBuffered is never reached, because a wave has at most waveBytes.
	maxBuffered = 1 << 30
	// metadataMinAge is the minimum pause between metadata requests for a missing partition.
	metadataMinAge = 250 * time.Millisecond
	minOverhead    = 100 * time.Millisecond // the minimum of the client
)

// Producer sends events to Kafka. It is safe for concurrent use: concurrent calls of Send alternate wave by
// wave.
type Producer struct {
	options []kgo.Opt
	timeout time.Duration

	mu     sync.Mutex
	client *kgo.Client    // nil after a client that did not answer
	limits map[string]int // by existing topic, the maximum size of a record batch in bytes
	closed bool
}

// New returns a producer. It does not connect; see Ping. The caller must close the producer.
func New(cfg Config) (*Producer, error) {
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("%w: Timeout is %v: want 0, for %v, or more", ErrInvalidConfig, cfg.Timeout,
			DefaultTimeout)
	}
	p := &Producer{timeout: cmp.Or(cfg.Timeout, DefaultTimeout), limits: make(map[string]int)}
	p.options = append(p.options, kgo.MetadataMinAge(metadataMinAge),
		kgo.RequestTimeoutOverhead(max(p.timeout, minOverhead))) // bounds the first request on a connection, which has no context
	p.options = append(p.options, cfg.Options...)
	p.options = append(p.options, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ManualFlushing(),
		kgo.ProducerBatchMaxBytes(MaxSize),
		kgo.MaxBufferedRecords(maxBuffered), kgo.UnknownTopicRetries(1))
	client, err := p.open() // does not connect
	if err != nil {
		return nil, err
	}
	if off, _ := client.OptValue(kgo.DisableIdempotentWrite).(bool); off {
		err = fmt.Errorf("%w: kgo.DisableIdempotentWrite: events could be lost or reordered",
			ErrInvalidConfig)
	}
	if id, _ := client.OptValue(kgo.TransactionalID).(string); id != "" {
		err = fmt.Errorf("%w: kgo.TransactionalID: the producer does not use transactions", ErrInvalidConfig)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Ping checks that Kafka can be reached. Otherwise it returns ErrUnavailable (wrapped) with the reason.
func (p *Producer) Ping(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ping(ctx)
}

func (p *Producer) ping(ctx context.Context) error {
	client, err := p.open()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, client.Close) // the first request of a connection does not end with ctx
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	err = client.Ping(limited)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		p.dropLate(limited)
		return fmt.Errorf("%w: no broker answers: check the addresses, TLS and credentials, and that the brokers are running: %w%s", ErrUnavailable, err, hint(err))
	}
	return nil
}

// Close closes the connections. It waits for calls of Send that are in progress; later calls fail.
func (p *Producer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop()
}

// open returns the client. It creates one if there is none.
func (p *Producer) open() (*kgo.Client, error) {
	if p.closed {
		return nil, fmt.Errorf("%w: the producer is closed", ErrUnavailable)
	}
	if p.client == nil {
		client, err := kgo.NewClient(p.options...)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
		}
		p.client = client
	}
	return p.client, nil
}

// drop closes the client and discards its records.
func (p *Producer) drop() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// dropLate closes the client after a request that was not answered in time, because the client would reuse
// the failed connection.
func (p *Producer) dropLate(ctx context.Context) {
	if ctx.Err() != nil {
		p.drop()
	}
}

// record returns the Kafka record of an event.
func record(e *outbox.Event) *kgo.Record {
	var headers []kgo.RecordHeader
	for _, h := range e.RecordHeaders() {
		headers = append(headers, kgo.RecordHeader(h))
	}
	return &kgo.Record{Topic: e.Topic, Key: e.Key, Value: e.Value, Headers: headers}
}
