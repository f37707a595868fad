// Program consumer is a consumer process of a trivial handler on kafka/consumer, for the benchmark.
package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/observe"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/test/bench/internal/peer"
	"github.com/idemsk/idemsk/test/bench/internal/topic"
)

type payment struct {
	PaymentID string `json:"paymentId"`
	Amount    int64  `json:"amount"`
}

// process is a consumer that runs until the process ends.
type process struct {
	*topic.Topic
	consumer *consumer.Consumer
	ended    chan error // the result of Run
	handled  atomic.Int64
	settled  atomic.Int64 // executed and replayed, since Invoke began
}

// Observe implements idem.Observer.
func (p *process) Observe(_ context.Context, e idem.Event) {
	if e.Step == observe.End && (e.Outcome.Kind == idem.Executed || e.Outcome.Kind == idem.Replayed) &&
		!e.Duplicate {
		p.settled.Add(1)
	}
}

func main() { peer.Main(newProcess) }

func newProcess(ctx context.Context) (peer.Function, error) {
	p := &process{ended: make(chan error, 1)}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	st, err := dynamostore.New(dynamostore.NewClient(cfg),
		dynamostore.Config{Table: os.Getenv("BENCH_TABLE")})
	if err != nil {
		return nil, err
	}
	engine, err := idem.New(st, idem.Config{Observer: p})
	if err != nil {
		return nil, err
	}
	if p.Topic, err = topic.New(); err != nil {
		return nil, err
	}
	handler := kafka.JSON(func(_ context.Context, pay payment, _ kafka.Record) (string, error) {
		p.handled.Add(1)
		return pay.PaymentID, nil
	})
	p.consumer, err = consumer.New(engine, handler,
		consumer.Config{Brokers: p.Brokers, Topics: []string{topic.Name}, Group: topic.Group})
	if err != nil {
		return nil, err
	}
	go func() { p.ended <- p.consumer.Run(ctx) }()
	return p, nil
}

// Invoke implements peer.Function: it produces the records of the event and returns when all are settled.
func (p *process) Invoke(ctx context.Context, _ []byte) (int, error) {
	p.handled.Store(0)
	p.settled.Store(0)
	all, err := p.Produce(ctx)
	if err != nil {
		return 0, err
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for p.settled.Load() < int64(all) {
		select {
		case <-look.C:
		case err := <-p.ended:
			return 0, fmt.Errorf("the consumer has ended: %w", err)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return int(p.handled.Load()), nil
}
