// Package relay sends the events of an outbox to Kafka: the half of a relay that does not depend on where the outbox is.
//
// # What it promises
//
// An event that Send does not return an error for is in the log of its topic, on all in-sync replicas. Of one topic and key,
// an event is sent only when the one ahead of it is published, or goes along in the same wave. A relay that sends again
// what is not known to be published, in its order, therefore keeps the order of each key: repeats can come late, but the first
// record of each event comes after the first record of the event before it. That holds with ones that were thought dead, too,
// as long as each has begun at an event before which all are published.
//
// # How
//
// Events go out in waves, one at a time. What a wave has for one topic fits into one record batch; an event that is too large
// for that goes without others of its topic. So one event is never the reason that another of a different key fails, and none is
// passed by while the broker refuses it.
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

// DefaultTimeout is how long a wave may take unless Config says otherwise.
const DefaultTimeout = 10 * time.Second

// Why an event was not published, for errors.Is.
var (
	// ErrRejected says that Kafka won't have this event: it is too large, or its topic does not exist or is not ours to write
	// to. Sent again it will be rejected again, unless somebody changes the topic.
	ErrRejected = errors.New("relay: Kafka rejects the event")
	// ErrHeldBack says that the event was not sent, as one ahead of it, of the same topic and key, was not published.
	ErrHeldBack = errors.New("relay: the event was held back: one ahead of it, of the same topic and key, was not published")
	// ErrUnavailable says that Kafka could not be reached, or did not answer in time. The event may have been published.
	ErrUnavailable = errors.New("relay: Kafka did not confirm the event")
)

// ErrInvalidConfig says that a Config can't be used. The error tells why.
var ErrInvalidConfig = errors.New("relay: invalid configuration")

// Config configures a Producer.
type Config struct {
	// Options are those of the Kafka client: kgo.SeedBrokers, and TLS, SASL or kgo.RecordPartitioner where need be. The
	// producer's own guarantees can't be overridden by them: it is idempotent and waits for all in-sync replicas.
	Options []kgo.Opt
	// Timeout bounds each wave, and each question about topics (default DefaultTimeout). What is not confirmed by then is
	// ErrUnavailable. The client is given up then, which takes up to a second, and what comes next is sent over new connections.
	Timeout time.Duration
}

const (
	// maxBatchBytes leaves it to the broker what is too large.
	maxBatchBytes = 64 << 20
	// maxBuffered is never reached: a wave has waveBytes.
	maxBuffered = 1 << 30
	// metadataMinAge is how soon the client asks again where a partition is that it looks for.
	metadataMinAge = 250 * time.Millisecond
)

// Producer sends events to Kafka. It is safe for concurrent use: calls of Send take turns, wave by wave.
type Producer struct {
	options []kgo.Opt
	timeout time.Duration

	mu     sync.Mutex
	client *kgo.Client    // nil after one that did not answer
	limits map[string]int // of the topics that are known to be there, the most bytes of a record batch
	closed bool
}

// New returns a producer. It does not connect: see Ping. It must be closed.
func New(cfg Config) (*Producer, error) {
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("%w: Timeout is %v: want 0, for %v, or more", ErrInvalidConfig, cfg.Timeout, DefaultTimeout)
	}
	p := &Producer{timeout: cmp.Or(cfg.Timeout, DefaultTimeout), limits: make(map[string]int)}
	p.options = append(p.options, kgo.MetadataMinAge(metadataMinAge))
	p.options = append(p.options, cfg.Options...)
	p.options = append(p.options, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ManualFlushing(), kgo.ProducerBatchMaxBytes(maxBatchBytes),
		kgo.MaxBufferedRecords(maxBuffered), kgo.UnknownTopicRetries(1))
	client, err := p.open() // which connects to nobody
	if err != nil {
		return nil, err
	}
	if off, _ := client.OptValue(kgo.DisableIdempotentWrite).(bool); off {
		err = fmt.Errorf("%w: kgo.DisableIdempotentWrite: events would be lost or change their order", ErrInvalidConfig)
	}
	if id, _ := client.OptValue(kgo.TransactionalID).(string); id != "" {
		err = fmt.Errorf("%w: kgo.TransactionalID: the producer has no transactions", ErrInvalidConfig)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Ping asks whether Kafka can be reached. It returns ErrUnavailable, and why, if not.
func (p *Producer) Ping(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	client, err := p.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		p.dropLate(ctx)
		return fmt.Errorf("%w: no broker answers: check the addresses, TLS and credentials, and that the brokers are up: %w", ErrUnavailable, err)
	}
	return nil
}

// Close ends the connections. Calls of Send that are under way come to their end first; later ones fail.
func (p *Producer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop()
}

// open returns the client, a new one if need be.
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

// drop gives the client up, and with it the records that it still has.
func (p *Producer) drop() {
	if p.client != nil {
		p.client.Close()
		p.client = nil
	}
}

// dropLate gives the client up after a request that was not answered in time: its connection may have fallen silent, and the client
// would ask over it again.
func (p *Producer) dropLate(ctx context.Context) {
	if ctx.Err() != nil {
		p.drop()
	}
}

// record returns an event as a Kafka record.
func record(e *outbox.Event) *kgo.Record {
	var headers []kgo.RecordHeader
	for _, h := range e.RecordHeaders() {
		headers = append(headers, kgo.RecordHeader(h))
	}
	return &kgo.Record{Topic: e.Topic, Key: e.Key, Value: e.Value, Headers: headers}
}
