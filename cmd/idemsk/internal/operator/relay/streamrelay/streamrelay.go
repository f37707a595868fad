// Package streamrelay reads the stream of a DynamoDB outbox and sends its events to Kafka, for local use. On
// AWS the function lambda/relay does this. It keeps no checkpoint.
package streamrelay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// Tables describes tables. It is implemented by dynamodb.Client.
type Tables interface {
	DescribeTable(context.Context, *dynamodb.DescribeTableInput,
		...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
}

// Streams reads streams. It is implemented by dynamodbstreams.Client.
type Streams interface {
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// Relay sends or parks items. It is implemented by dynamooutbox.Relay.
type Relay interface {
	Send(ctx context.Context, items []dynamooutbox.Item) dynamooutbox.Result
	Reject(ctx context.Context, item dynamooutbox.Item, reason error) error
}

// Config configures Run.
type Config struct {
	Table   string
	Tables  Tables
	Streams Streams
	Relay   Relay
	Logger  *slog.Logger
	// Poll is the pause after a read that returned nothing or failed, and before an item is sent again.
	Poll time.Duration
	// UntilEmpty ends Run at the end of the stream.
	UntilEmpty bool
	// Report is called after each read that returned something.
	Report func(r dynamooutbox.Result)
}

// shard is a shard that is read.
type shard struct {
	id, parent string
	after      string  // sequence number of the last record that was published or parked
	iterator   *string // nil if it must be requested
	ended      bool    // completely read
}

// follower reads a stream.
type follower struct {
	Config
	stream string
	shards map[string]*shard
	order  []string // in the order of their discovery
}

// Run reads the stream from its oldest record until ctx ends. It reads a shard after its parent, so that the
// changes of an item, and the items of a key, are in order. It retries while DynamoDB does not answer or
// throttles. It returns any other error.
func Run(ctx context.Context, cfg Config) error {
	table, err := cfg.Tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &cfg.Table})
	if err != nil {
		return err
	}
	if table.Table.LatestStreamArn == nil {
		return fmt.Errorf("table %s has no stream: an outbox's table has one of type NEW_IMAGE", cfg.Table)
	}
	f := &follower{Config: cfg, stream: *table.Table.LatestStreamArn, shards: make(map[string]*shard)}
	passing := retry.IsErrorRetryables(retry.DefaultRetryables)
	for ctx.Err() == nil {
		moved, err := f.look(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && passing.IsErrorRetryable(err) != aws.TrueTernary:
			return err
		case err != nil:
			f.Logger.WarnContext(ctx, "the stream can't be read now, retrying", "table", f.Table, "error",
				err)
			pause(ctx, f.Poll)
		case !moved && f.UntilEmpty:
			return nil
		case !moved:
			pause(ctx, f.Poll)
		}
	}
	return nil
}

// look reads each shard once, and reports whether there may be more records.
func (f *follower) look(ctx context.Context) (moved bool, err error) {
	if err := f.discover(ctx); err != nil {
		return false, err
	}
	for _, id := range f.order {
		m, err := f.read(ctx, f.shards[id])
		if err != nil {
			return moved, err
		}
		moved = moved || m
	}
	return moved, nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// discover finds new shards.
func (f *follower) discover(ctx context.Context) error {
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &f.stream}
	for {
		out, err := f.Streams.DescribeStream(ctx, in)
		if err != nil {
			return err
		}
		for _, s := range out.StreamDescription.Shards {
			id := aws.ToString(s.ShardId)
			if f.shards[id] == nil {
				f.shards[id] = &shard{id: id, parent: aws.ToString(s.ParentShardId)}
				f.order = append(f.order, id)
			}
		}
		if in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId; in.ExclusiveStartShardId == nil {
			return nil
		}
	}
}

// read sends the next records of a shard. It reports whether there were any, or whether the shard has ended,
// because a child may follow. It does nothing until the shard's parent has been read.
func (f *follower) read(ctx context.Context, s *shard) (moved bool, err error) {
	if parent := f.shards[s.parent]; s.ended || parent != nil && !parent.ended {
		return false, nil
	}
	if err := f.open(ctx, s); err != nil {
		return false, err
	}
	out, err := f.Streams.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: s.iterator})
	if expired := (*types.ExpiredIteratorException)(nil); errors.As(err, &expired) {
		s.iterator = nil // it is valid for 15 minutes, and Kafka may have been unavailable for longer
		return true, nil
	}
	if err != nil {
		return false, err
	}
	items, err := f.items(ctx, out.Records)
	if err != nil {
		return false, err
	}
	if err := f.send(ctx, items); err != nil {
		return false, err
	}
	if n := len(out.Records); n > 0 {
		s.after = aws.ToString(out.Records[n-1].Dynamodb.SequenceNumber)
	}
	s.iterator, s.ended = out.NextShardIterator, out.NextShardIterator == nil
	return s.ended || len(out.Records) > 0, nil
}

// open requests the iterator of a shard at its position.
func (f *follower) open(ctx context.Context, s *shard) error {
	if s.iterator != nil {
		return nil
	}
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &f.stream, ShardId: &s.id,
		ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if s.after != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &s.after
	}
	out, err := f.Streams.GetShardIterator(ctx, in)
	if err != nil {
		return err
	}
	s.iterator = out.ShardIterator
	return nil
}

var errNoImage = errors.New("the stream's records have no new image: it must be of type NEW_IMAGE or NEW_AND_OLD_IMAGES")

// items returns the items to send: new and requeued ones. A record that is not an item is parked.
func (f *follower) items(ctx context.Context, records []types.Record) (items []dynamooutbox.Item, err error) {
	for i := range records {
		r := &records[i]
		_, requeued := r.Dynamodb.NewImage[dynamooutbox.AttrRequeuedAt]
		switch {
		case r.EventName == types.OperationTypeRemove:
			continue
		case len(r.Dynamodb.NewImage) == 0:
			return nil, errNoImage
		case r.EventName == types.OperationTypeModify && !requeued:
			continue
		}
		image, err := attributevalue.FromDynamoDBStreamsMap(r.Dynamodb.NewImage)
		if err != nil {
			return nil, err
		}
		it, err := dynamooutbox.Decode(image)
		switch {
		case err == nil:
			items = append(items, it)
		case it.Aggregate == "" || it.ID == "":
			return nil, fmt.Errorf("is %s the table of an outbox? %w", f.Table, err)
		default:
			if err := f.Relay.Reject(ctx, it, err); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}

// send sends items in order until each is published or parked.
func (f *follower) send(ctx context.Context, items []dynamooutbox.Item) error {
	for len(items) > 0 {
		result := f.Relay.Send(ctx, items)
		f.Report(result)
		first := -1
		for i, err := range result.Errs {
			if err != nil {
				first = i
				f.Logger.WarnContext(ctx, "an item is sent again", "aggregate", items[i].Aggregate, "id",
					items[i].ID, "error", err)
				break
			}
		}
		if first < 0 {
			return nil
		}
		items = items[first:] // later items are sent again, as with Lambda's event source
		pause(ctx, f.Poll)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
