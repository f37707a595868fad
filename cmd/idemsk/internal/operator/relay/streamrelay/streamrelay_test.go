package streamrelay_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	tabletypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/relay/streamrelay"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// image returns an item's image in the stream.
func image(id string, requeued bool) map[string]types.AttributeValue {
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	av := map[string]types.AttributeValue{
		dynamooutbox.AttrAggregate: text("credited"), dynamooutbox.AttrID: text(id),
		"topic":     text("credited"),
		"createdAt": &types.AttributeValueMemberN{Value: "1"},
		"events": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"id": text(id)}},
		}},
	}
	if requeued {
		av[dynamooutbox.AttrRequeuedAt] = &types.AttributeValueMemberN{Value: "2"}
		av["requeued"] = &types.AttributeValueMemberSS{Value: []string{id}}
	}
	return av
}

func record(kind types.OperationType, image map[string]types.AttributeValue) types.Record {
	return types.Record{EventName: kind, Dynamodb: &types.StreamRecord{NewImage: image}}
}

func inserted(id string) types.Record { return record(types.OperationTypeInsert, image(id, false)) }

// streams is a stream with closed shards. An iterator is a shard's name and a position. It is valid for 15
// minutes.
type streams struct {
	order   []string // as DescribeStream tells them, a page each
	parents map[string]string
	records map[string][]types.Record
	fail    []error // of the next calls of GetRecords
	issued  map[string]time.Time
	none    bool // the table has no stream
}

func newStreams(order ...string) *streams {
	return &streams{order: order, parents: map[string]string{}, records: map[string][]types.Record{},
		issued: map[string]time.Time{}}
}

func (s *streams) DescribeTable(context.Context, *dynamodb.DescribeTableInput,
	...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out := &dynamodb.DescribeTableOutput{Table: &tabletypes.TableDescription{LatestStreamArn: aws.String(
		"arn")}}
	if s.none {
		out.Table.LatestStreamArn = nil
	}
	return out, nil
}

func (s *streams) DescribeStream(_ context.Context, in *dynamodbstreams.DescribeStreamInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	i := slices.Index(s.order, aws.ToString(in.ExclusiveStartShardId)) + 1
	shard := types.Shard{ShardId: &s.order[i]}
	if parent, ok := s.parents[s.order[i]]; ok {
		shard.ParentShardId = &parent
	}
	out := &types.StreamDescription{Shards: []types.Shard{shard}}
	if i+1 < len(s.order) {
		out.LastEvaluatedShardId = &s.order[i]
	}
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: out}, nil
}

func (s *streams) iterator(shard string, at int) *string {
	it := fmt.Sprintf("%s %d", shard, at)
	s.issued[it] = time.Now()
	return &it
}

func (s *streams) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	at := 0
	if in.ShardIteratorType == types.ShardIteratorTypeAfterSequenceNumber {
		at, _ = strconv.Atoi(*in.SequenceNumber)
		at++
	}
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: s.iterator(*in.ShardId, at)}, nil
}

// GetRecords returns one record at a time.
func (s *streams) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput,
	_ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	if len(s.fail) > 0 {
		err := s.fail[0]
		s.fail = s.fail[1:]
		return nil, err
	}
	if time.Since(s.issued[*in.ShardIterator]) > 15*time.Minute {
		return nil, &types.ExpiredIteratorException{}
	}
	shard, position, _ := strings.Cut(*in.ShardIterator, " ")
	at, err := strconv.Atoi(position)
	if err != nil || at >= len(s.records[shard]) {
		return &dynamodbstreams.GetRecordsOutput{}, err
	}
	r := s.records[shard][at]
	r.Dynamodb.SequenceNumber = &position
	return &dynamodbstreams.GetRecordsOutput{Records: []types.Record{r},
		NextShardIterator: s.iterator(shard, at+1)}, nil
}

// relay records the items that it gets. The first sends fail, each after a delay.
type relay struct {
	sent, rejected []string
	failures       int
	slow           time.Duration
}

func (r *relay) Send(_ context.Context, items []dynamooutbox.Item) dynamooutbox.Result {
	result := dynamooutbox.Result{Errs: make([]error, len(items))}
	if r.failures > 0 {
		r.failures--
		<-time.After(r.slow)
		result.Errs[0] = errors.New("kafka is away")
		return result
	}
	for _, it := range items {
		r.sent = append(r.sent, it.ID)
	}
	result.Published = len(items)
	return result
}

func (r *relay) Reject(_ context.Context, it dynamooutbox.Item, _ error) error {
	r.rejected = append(r.rejected, it.ID)
	return nil
}

// follow reads the stream to its end, and returns the number of published events.
func follow(t *testing.T, s *streams, r *relay) (published int, err error) {
	t.Helper()
	err = streamrelay.Run(t.Context(), streamrelay.Config{
		Table: "outbox", Tables: s, Streams: s, Relay: r, Logger: slog.New(slog.DiscardHandler),
		Poll: time.Second, UntilEmpty: true,
		Report: func(sent dynamooutbox.Result) { published += sent.Published },
	})
	return published, err
}

func sentIs(t *testing.T, r *relay, want ...string) {
	t.Helper()
	if !slices.Equal(r.sent, want) {
		t.Errorf("sent %q; want %q", r.sent, want)
	}
}

// Shards are listed in any order. A shard is read after its parent.
func TestParentsAreReadFirst(t *testing.T) {
	s := newStreams("child", "other", "parent")
	s.parents["child"], s.parents["parent"] = "parent", "forgotten"
	s.records["parent"] = []types.Record{inserted("1"), inserted("2"), inserted("3")}
	s.records["child"] = []types.Record{inserted("4"), inserted("5")}
	r := &relay{}
	published, err := follow(t, s, r)
	if err != nil || published != 5 {
		t.Error(published, err)
	}
	sentIs(t, r, "1", "2", "3", "4", "5")
}

// New and requeued items are sent; parked and deleted ones are not.
func TestNewAndRequeuedItemsAreSent(t *testing.T) {
	s := newStreams("a")
	wrong := image("4", false)
	delete(wrong, "events")
	s.records["a"] = []types.Record{
		inserted("1"), record(types.OperationTypeModify, image("2", false)),
		record(types.OperationTypeModify, image("3", true)),
		record(types.OperationTypeInsert, wrong), record(types.OperationTypeRemove, nil), inserted("5"),
	}
	r := &relay{}
	if _, err := follow(t, s, r); err != nil {
		t.Error(err)
	}
	sentIs(t, r, "1", "3", "5")
	if !slices.Equal(r.rejected, []string{"4"}) {
		t.Errorf("rejected %q", r.rejected)
	}
}

// Kafka is unavailable for longer than an iterator is valid, and DynamoDB for some time. Each event is sent
// once, in order.
func TestOutagesLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreams("a")
		s.records["a"] = []types.Record{inserted("1"), inserted("2"), inserted("3")}
		s.fail = []error{&smithy.GenericAPIError{Code: "ThrottlingException"},
			&types.ExpiredIteratorException{}}
		r := &relay{failures: 3, slow: 10 * time.Minute}
		if _, err := follow(t, s, r); err != nil {
			t.Error(err)
		}
		sentIs(t, r, "1", "2", "3")
	})
}

func TestErrorsThatEndRun(t *testing.T) {
	denied := &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}
	noImage := newStreams("a")
	noImage.records["a"] = []types.Record{record(types.OperationTypeInsert, nil)}
	keysOnly := newStreams("a")
	keysOnly.records["a"] = []types.Record{record(types.OperationTypeModify, nil)}
	other := newStreams("a")
	other.records["a"] = []types.Record{record(types.OperationTypeInsert,
		map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}})}
	refused := newStreams("a")
	refused.fail = []error{denied}
	none := newStreams("a")
	none.none = true
	for name, c := range map[string]struct {
		streams *streams
		want    string
	}{
		"no stream": {none, "has no stream"}, "no images": {noImage, "no new image"},
		"no images of changes": {keysOnly, "no new image"},
		"another table":        {other, "is outbox the table of an outbox?"},
		"not allowed":          {refused, "AccessDenied"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &relay{}
			if _, err := follow(t, c.streams, r); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
			sentIs(t, r)
		})
	}
}

// Run returns nil when the context ends.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreams("a")
		s.records["a"] = []types.Record{inserted("1")}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := streamrelay.Run(ctx, streamrelay.Config{
			Table: "outbox", Tables: s, Streams: s, Relay: &relay{failures: 1 << 20},
			Logger: slog.New(slog.DiscardHandler), Poll: time.Second,
			Report: func(dynamooutbox.Result) {},
		})
		if err != nil || time.Since(start) != time.Minute {
			t.Error(err, time.Since(start))
		}
	})
}
