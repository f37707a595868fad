// Program pollloop is a consumer process as a team writes it first: a poll loop on franz-go, and goroutines
// that make two requests for each record, on the AWS SDK for Go.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/test/bench/internal/event"
	"github.com/idemsk/idemsk/test/bench/internal/peer"
	"github.com/idemsk/idemsk/test/bench/internal/topic"
	"github.com/idemsk/idemsk/test/bench/internal/twowrites"
)

const goroutines = 32

type payment struct {
	PaymentID string `json:"paymentId"`
	Amount    int64  `json:"amount"`
}

// loop handles the records of a topic, goroutines of them at once, in no order.
type loop struct {
	*topic.Topic
	table   *twowrites.Table
	client  *kgo.Client
	done    chan error // one for each record
	handled atomic.Int64
}

func main() { peer.Main(newLoop) }

func newLoop(ctx context.Context) (peer.Function, error) {
	l := &loop{done: make(chan error, goroutines)}
	var err error
	if l.table, err = twowrites.Open(ctx, os.Getenv("BENCH_TABLE"), goroutines); err != nil {
		return nil, err
	}
	if l.Topic, err = topic.New(); err != nil {
		return nil, err
	}
	if l.client, err = kgo.NewClient(kgo.SeedBrokers(l.Brokers...), kgo.ConsumeTopics(topic.Name),
		kgo.ConsumerGroup(topic.Group)); err != nil {
		return nil, err
	}
	records := make(chan *kgo.Record, goroutines)
	for range goroutines {
		go l.work(ctx, records)
	}
	go l.poll(ctx, records)
	return l, nil
}

// poll passes the records on until the process ends.
func (l *loop) poll(ctx context.Context, records chan<- *kgo.Record) {
	for ctx.Err() == nil {
		l.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { records <- r })
	}
}

func (l *loop) work(ctx context.Context, records <-chan *kgo.Record) {
	for r := range records {
		l.done <- l.process(ctx, r)
	}
}

func (l *loop) process(ctx context.Context, r *kgo.Record) error {
	key := keyOf(r)
	fresh, err := l.table.Claim(ctx, key)
	if err != nil || !fresh {
		return err
	}
	var p payment
	if err := json.Unmarshal(r.Value, &p); err != nil {
		return fmt.Errorf("decoding the payment: %w", err)
	}
	l.handled.Add(1)
	return l.table.Complete(ctx, key, p.PaymentID)
}

func keyOf(r *kgo.Record) string {
	for _, header := range r.Headers {
		if header.Key == event.KeyHeader {
			return string(header.Value)
		}
	}
	return ""
}

// Invoke implements peer.Function: it produces the records of the event and returns when all are handled.
func (l *loop) Invoke(ctx context.Context, _ []byte) (int, error) {
	l.handled.Store(0)
	n, err := l.Produce(ctx)
	if err != nil {
		return 0, err
	}
	for range n {
		select {
		case err := <-l.done:
			if err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return int(l.handled.Load()), nil
}
