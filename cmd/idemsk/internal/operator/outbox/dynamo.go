package outbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

func (o *Flags) openDynamoDB(ctx context.Context) (*Table, error) {
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: o.Dynamo})
	if err != nil {
		return nil, &command.UsageError{Err: err}
	}
	cfg, err := o.Load(ctx)
	if err != nil {
		return nil, err
	}
	t := dynamoOutbox{box: box, db: dynamostore.NewClient(cfg)}
	return &Table{
		Place: "the table " + o.Dynamo, One: "item", Many: "items", Items: true,
		Cost:   "scanning the table " + o.Dynamo + ", 1 read unit for 4 KB",
		Parked: t.parked, Created: t.created, Requeue: t.requeue, Explain: explainOutbox, Close: func() {},
	}, nil
}

// explainOutbox is explainAWS with the name of this verb's flag.
func explainOutbox(err error) error {
	var missing *types.ResourceNotFoundException
	if errors.As(err, &missing) {
		return fmt.Errorf("%w: check --outbox-table, --region and --endpoint-url", err)
	}
	return flags.ExplainAWS(err)
}

// dynamoOutbox is an outbox in DynamoDB.
type dynamoOutbox struct {
	box *dynamooutbox.Outbox
	db  dynamooutbox.AdminClient
}

func (t *dynamoOutbox) parked(ctx context.Context, _ int) iter.Seq2[Entry, error] {
	return t.list(ctx, dynamooutbox.ListQuery{Parked: true}, func(*dynamooutbox.Item) bool { return true })
}

func (t *dynamoOutbox) created(ctx context.Context, from, to time.Time, inPart func()) iter.Seq2[Entry,
	error] {
	return t.list(ctx, dynamooutbox.ListQuery{From: from, To: to}, func(it *dynamooutbox.Item) bool {
		if n := len(it.Parked); n > 0 && n < len(it.Events) {
			inPart()
		}
		return len(it.Parked) == 0
	})
}

func (t *dynamoOutbox) list(ctx context.Context, q dynamooutbox.ListQuery,
	wanted func(*dynamooutbox.Item) bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for it, err := range t.box.List(ctx, t.db, q) {
			switch {
			case errors.Is(err, dynamooutbox.ErrNotAnItem):
				err = fmt.Errorf("%w: %w", ErrUnreadable, err)
			case err == nil && !wanted(&it):
				continue
			}
			if !yield(entryOf(&it), err) {
				return
			}
		}
	}
}

func entryOf(it *dynamooutbox.Item) Entry {
	e := Entry{
		ID: it.ID, Aggregate: it.Aggregate, Events: it.Parked, CreatedAt: it.CreatedAt.UTC(),
		ParkedAt: it.ParkedAt.UTC(),
		Attempts: it.Attempts, Failure: it.Failure,
	}
	if len(it.Events) > 0 {
		e.Topic = it.Events[0].Topic
		e.setKey(it.Events[0].Key)
	}
	return e
}

// requeuesAtOnce is the number of topics and keys that are requeued at the same time.
const requeuesAtOnce = 16

// requeue requeues the items of one topic and key one after another, so that the stream has them in order.
func (t *dynamoOutbox) requeue(ctx context.Context, entries []Entry) (events int, problems []error,
	err error) {
	byAggregate := make(map[string][]Entry)
	for _, e := range entries {
		byAggregate[e.Aggregate] = append(byAggregate[e.Aggregate], e)
	}
	var mu sync.Mutex // for the results
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requeuesAtOnce)
	for _, inOrder := range byAggregate {
		group.Go(func() error {
			for _, e := range inOrder {
				n, err := t.box.Requeue(ctx, t.db, e.Aggregate, e.ID)
				var changed *types.ConditionalCheckFailedException
				itself := errors.Is(err, dynamooutbox.ErrNoItem) ||
					errors.Is(err, dynamooutbox.ErrNotAnItem) || errors.As(err, &changed)
				if err != nil && !itself {
					return err
				}
				mu.Lock()
				events += n
				if err != nil {
					problems = append(problems, err)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	err = group.Wait()
	return events, problems, err
}
