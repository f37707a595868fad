// Program goloop is what a team writes first: a loop over the records with two requests each, on the AWS SDK
// for Go.
package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/test/bench/internal/peer"
	"github.com/idemsk/idemsk/test/bench/internal/twowrites"
)

const keyHeader = "idempotency-key"

type payment struct {
	PaymentID string `json:"paymentId"`
	Amount    int64  `json:"amount"`
}

// loop handles up to limit records at once, the records of a lane one after another.
type loop struct {
	table       *twowrites.Table
	limit       int
	byPartition bool // a lane is a partition; otherwise each record is a lane
	handled     atomic.Int64
}

func main() { peer.Main(newLoop) }

func newLoop(ctx context.Context) (peer.Function, error) {
	limit, err := strconv.Atoi(cmp.Or(os.Getenv("BENCH_CONCURRENCY"), "1"))
	if err != nil {
		return nil, fmt.Errorf("BENCH_CONCURRENCY: %w", err)
	}
	table, err := twowrites.Open(ctx, os.Getenv("BENCH_TABLE"), limit)
	if err != nil {
		return nil, err
	}
	return &loop{table: table, limit: limit, byPartition: os.Getenv("BENCH_ORDER") == "partition"}, nil
}

// Invoke implements peer.Function.
func (l *loop) Invoke(ctx context.Context, payload []byte) (int, error) {
	var event events.KafkaEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return 0, fmt.Errorf("decoding the event: %w", err)
	}
	l.handled.Store(0)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.limit)
	for _, records := range event.Records {
		if l.byPartition {
			group.Go(func() error { return l.lane(ctx, records) })
			continue
		}
		for i := range records {
			group.Go(func() error { return l.lane(ctx, records[i:i+1]) })
		}
	}
	err := group.Wait()
	return int(l.handled.Load()), err
}

func (l *loop) lane(ctx context.Context, records []events.KafkaRecord) error {
	for i := range records {
		if err := l.process(ctx, &records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) process(ctx context.Context, r *events.KafkaRecord) error {
	key := keyOf(r)
	fresh, err := l.table.Claim(ctx, key)
	if err != nil || !fresh {
		return err
	}
	value, err := base64.StdEncoding.DecodeString(r.Value)
	if err != nil {
		return fmt.Errorf("decoding the value: %w", err)
	}
	var p payment
	if err := json.Unmarshal(value, &p); err != nil {
		return fmt.Errorf("decoding the payment: %w", err)
	}
	l.handled.Add(1)
	return l.table.Complete(ctx, key, p.PaymentID)
}

func keyOf(r *events.KafkaRecord) string {
	for _, header := range r.Headers {
		if value, ok := header[keyHeader]; ok {
			return string(value)
		}
	}
	return ""
}
