package dynamooutbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/outbox"
)

// longestFailure is the maximum size of attrFailure in bytes.
const longestFailure = 1000

// The updates that park an event. The second one is for an item that can't be decoded: whatever is in the
// attribute is replaced.
const (
	parkBeside = "SET #at = :at, #why = :why, #n = :n ADD #parked :ids REMOVE #expiry, #requeued, #requeuedAt"
	parkAlone  = "SET #at = :at, #why = :why, #n = :n, #parked = :ids REMOVE #expiry, #requeued, #requeuedAt"
)

// Reject parks an item that can't be decoded. why is the reason.
func (r *Relay) Reject(ctx context.Context, it Item, why error) error {
	p := &parcel{event: outbox.Event{ID: it.ID}, attempts: 1, err: why}
	gone, err := r.note(ctx, &it, p, parkAlone)
	if err == nil {
		r.log(ctx, &it, p, gone, 1)
	}
	return err
}

// note parks an event: it marks the event on its item and removes the item's expiry. It reports whether the
// item is gone.
func (r *Relay) note(ctx context.Context, it *Item, p *parcel, update string) (gone bool, err error) {
	failure := strings.ToValidUTF8(p.err.Error(), "")
	_, err = r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.outbox.table, Key: itemKey(it.Aggregate, it.ID),
		ConditionExpression: aws.String("attribute_exists(#a)"), UpdateExpression: &update,
		ExpressionAttributeNames: map[string]string{
			"#a": AttrAggregate, "#at": attrParkedAt, "#why": attrFailure, "#n": attrAttempts,
			"#parked": attrParked,
			"#expiry": AttrExpiry, "#requeued": attrRequeued, "#requeuedAt": AttrRequeuedAt,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":at":  number(time.Now().UnixMilli()),
			":why": text(strings.ToValidUTF8(failure[:min(len(failure), longestFailure)], "")),
			":n":   number(int64(p.attempts)), ":ids": texts([]string{p.event.ID}),
		},
	})
	var changed *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &changed):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("dynamooutbox: parking event %s of item %q, %q of table %s, which was rejected (%w): %w%s",
			p.event.ID, shorten([]byte(it.Aggregate)), it.ID, r.outbox.table, p.err, err, hint(err))
	}
	return false, nil
}

// log logs that some events were parked, or were not because their items are gone, by the first of them.
func (r *Relay) log(ctx context.Context, it *Item, first *parcel, gone bool, events int) {
	what := "events of the outbox were rejected and parked on their items: repair the topic or the publisher, and requeue the events"
	if gone {
		what = "events of the outbox were rejected, and their items were deleted: they are not retried"
	}
	r.cfg.Logger.ErrorContext(ctx, what, "topic", string(shorten([]byte(first.event.Topic))), "events", events,
		"aggregate", string(shorten([]byte(it.Aggregate))), "item", it.ID, "event", first.event.ID,
		"attempts", first.attempts, "error", first.err)
}

func itemKey(aggregate, id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{AttrAggregate: text(aggregate), AttrID: text(id)}
}

// AdminClient is the part of *dynamodb.Client that List and Requeue use.
type AdminClient interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	GetItem(ctx context.Context, in *dynamodb.GetItemInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Scan(ctx context.Context, in *dynamodb.ScanInput,
		optFns ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// ListQuery selects items. The zero value selects all.
type ListQuery struct {
	Parked   bool      // only items with parked events
	From, To time.Time // only items created from From until before To; a zero time is no bound
}

// List scans the table and yields the selected items in no order. It yields ErrNotAnItem (wrapped) for an
// invalid item and continues; after any other error it stops.
func (o *Outbox) List(ctx context.Context, client AdminClient, q ListQuery) iter.Seq2[Item, error] {
	in := &dynamodb.ScanInput{TableName: &o.table, ConsistentRead: aws.Bool(true)}
	q.filter(in)
	return func(yield func(Item, error) bool) {
		for {
			out, err := client.Scan(ctx, in)
			if err != nil {
				yield(Item{}, fmt.Errorf("dynamooutbox: reading table %s: %w%s", o.table, err, hint(err)))
				return
			}
			for _, av := range out.Items {
				if !yield(Decode(av)) {
					return
				}
			}
			if len(out.LastEvaluatedKey) == 0 {
				return
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
}

func (q *ListQuery) filter(in *dynamodb.ScanInput) {
	var conditions []string
	names, values := make(map[string]string), make(map[string]types.AttributeValue)
	if q.Parked {
		conditions = append(conditions, "attribute_exists(#parked)")
		names["#parked"] = attrParked
	}
	bound := func(comparison, placeholder string, at time.Time) {
		if !at.IsZero() {
			conditions = append(conditions, "#created "+comparison+" "+placeholder)
			names["#created"], values[placeholder] = attrCreatedAt, number(at.UnixMilli())
		}
	}
	bound(">=", ":from", q.From)
	bound("<", ":to", q.To)
	if len(conditions) == 0 {
		return
	}
	in.FilterExpression, in.ExpressionAttributeNames = aws.String(strings.Join(conditions, " AND ")), names
	if len(values) > 0 {
		in.ExpressionAttributeValues = values
	}
}

// ErrNoItem means that there is no such item.
var ErrNoItem = errors.New("dynamooutbox: there is no such item")

// Requeue makes the parked events of an item pending again, or all its events if none is parked, and returns
// their number. They may be sent after later events of their key. Events that were published are sent again.
func (o *Outbox) Requeue(ctx context.Context, client AdminClient, aggregate, id string) (int, error) {
	wrong := func(err error) error {
		return fmt.Errorf("dynamooutbox: requeueing item %q, %q of table %s: %w%s", aggregate, id, o.table,
			err, hint(err))
	}
	key := itemKey(aggregate, id)
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &o.table, Key: key,
		ConsistentRead: aws.Bool(true)})
	if err != nil {
		return 0, wrong(err)
	}
	if len(out.Item) == 0 {
		return 0, wrong(ErrNoItem)
	}
	it, err := Decode(out.Item)
	if err != nil {
		return 0, wrong(err)
	}
	ids := it.Parked
	if len(ids) == 0 {
		for i := range it.Events {
			ids = append(ids, it.Events[i].ID)
		}
	}
	now := time.Now()
	in := &dynamodb.UpdateItemInput{
		TableName: &o.table, Key: key,
		UpdateExpression: aws.String("SET #requeued = :ids, #requeuedAt = :now, #expiry = :expiry REMOVE #parked, #at, #why, #n"),
		ExpressionAttributeNames: map[string]string{
			"#a": AttrAggregate, "#at": attrParkedAt, "#why": attrFailure, "#n": attrAttempts,
			"#parked": attrParked,
			"#expiry": AttrExpiry, "#requeued": attrRequeued, "#requeuedAt": AttrRequeuedAt,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":ids": texts(ids), ":now": number(now.UnixMilli()),
			":expiry": number(now.Add(o.retention).Unix()),
		},
		// Events that are parked meanwhile must stay parked.
		ConditionExpression: aws.String("attribute_exists(#a) AND attribute_not_exists(#parked)"),
	}
	if len(it.Parked) > 0 {
		in.ConditionExpression = aws.String("attribute_exists(#a) AND #parked = :ids")
	}
	if _, err := client.UpdateItem(ctx, in); err != nil {
		return 0, wrong(err)
	}
	return len(ids), nil
}

// hint returns the remedy for an error of DynamoDB, "" if none is known.
func hint(err error) string {
	var missing *types.ResourceNotFoundException
	var changed *types.ConditionalCheckFailedException
	var api smithy.APIError
	switch {
	case errors.As(err, &missing):
		return " (the table does not exist in this account and region)"
	case errors.As(err, &changed):
		return " (it has changed meanwhile: try again)"
	case errors.As(err, &api) && api.ErrorCode() == "AccessDeniedException":
		return " (the role needs dynamodb:BatchGetItem and UpdateItem on the table; to list and requeue, UpdateItem, GetItem and Scan)"
	case errors.As(err, &api) && api.ErrorCode() == "ValidationException":
		return " (is the table's key " + strconv.Quote(AttrAggregate) + ", " + strconv.Quote(AttrID) + "?)"
	}
	return ""
}
