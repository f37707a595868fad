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
)

// longestFailure bounds AttrFailure, in bytes.
const longestFailure = 1000

// Reject sets a whole item aside that can't be decoded, why being the reason.
func (r *Relay) Reject(ctx context.Context, it Item, why error) error {
	return r.note(ctx, &it, it.ID, 1, why)
}

// note marks an event on its item as set aside. The item then has no expiry.
func (r *Relay) note(ctx context.Context, it *Item, id string, attempts int, why error) error {
	log := r.cfg.Logger.With("aggregate", string(shorten([]byte(it.Aggregate))), "item", it.ID, "event", id, "attempts", attempts, "error", why)
	failure := strings.ToValidUTF8(why.Error(), "")
	_, err := r.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &r.outbox.table, Key: itemKey(it.Aggregate, it.ID), ConditionExpression: aws.String("attribute_exists(#a)"),
		UpdateExpression: aws.String("SET #at = :at, #why = :why, #n = :n ADD #aside :ids REMOVE #expiry, #requeued, #requeuedAt"),
		ExpressionAttributeNames: map[string]string{
			"#a": AttrAggregate, "#at": AttrAsideAt, "#why": AttrFailure, "#n": AttrAttempts, "#aside": AttrAside,
			"#expiry": AttrExpiry, "#requeued": AttrRequeued, "#requeuedAt": AttrRequeuedAt,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":at": number(time.Now().UnixMilli()), ":why": text(strings.ToValidUTF8(failure[:min(len(failure), longestFailure)], "")),
			":n": number(int64(attempts)), ":ids": texts([]string{id}),
		},
	})
	var gone *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &gone):
		log.ErrorContext(ctx, "an event of the outbox is rejected, and its item has been deleted: nothing is left to be sent again")
	case err != nil:
		return fmt.Errorf("dynamooutbox: setting event %s of item %q, %q of table %s aside, which was rejected (%w): %w%s",
			id, shorten([]byte(it.Aggregate)), it.ID, r.outbox.table, why, err, hint(err))
	default:
		log.ErrorContext(ctx, "an event of the outbox is rejected, and set aside on its item: mend the topic, or what publishes, and requeue it")
	}
	return nil
}

func itemKey(aggregate, id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{AttrAggregate: text(aggregate), AttrID: text(id)}
}

// AdminClient is what List and Requeue need of a *dynamodb.Client.
type AdminClient interface {
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, optFns ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	Scan(ctx context.Context, in *dynamodb.ScanInput, optFns ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
}

// ListQuery says which items are listed. The zero value is all.
type ListQuery struct {
	Aside    bool      // only those with events that are set aside
	From, To time.Time // only those created in this time, To excluded; zero: no bound
}

// List reads the whole table, and yields the items that a query asks for, in no order. An item that is not one is yielded as
// an error, ErrNotAnItem; after any other error there are no more.
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
	if q.Aside {
		conditions = append(conditions, "attribute_exists(#aside)")
		names["#aside"] = AttrAside
	}
	bound := func(comparison, placeholder string, at time.Time) {
		if !at.IsZero() {
			conditions = append(conditions, "#created "+comparison+" "+placeholder)
			names["#created"], values[placeholder] = AttrCreatedAt, number(at.UnixMilli())
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

// ErrNoItem says that there is no such item.
var ErrNoItem = errors.New("dynamooutbox: there is no such item")

// Requeue has those events of an item sent again that are set aside, all of them if none is, and returns how many these are. They
// may come after later events of their key, and come again where they had been published.
func (o *Outbox) Requeue(ctx context.Context, client AdminClient, aggregate, id string) (int, error) {
	wrong := func(err error) error {
		return fmt.Errorf("dynamooutbox: requeueing item %q, %q of table %s: %w%s", aggregate, id, o.table, err, hint(err))
	}
	key := itemKey(aggregate, id)
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &o.table, Key: key, ConsistentRead: aws.Bool(true)})
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
	ids := it.Aside
	if len(ids) == 0 {
		for i := range it.Events {
			ids = append(ids, it.Events[i].ID)
		}
	}
	now := time.Now()
	in := &dynamodb.UpdateItemInput{
		TableName: &o.table, Key: key,
		UpdateExpression: aws.String("SET #requeued = :ids, #requeuedAt = :now, #expiry = :expiry REMOVE #aside, #at, #why, #n"),
		ExpressionAttributeNames: map[string]string{
			"#a": AttrAggregate, "#at": AttrAsideAt, "#why": AttrFailure, "#n": AttrAttempts, "#aside": AttrAside,
			"#expiry": AttrExpiry, "#requeued": AttrRequeued, "#requeuedAt": AttrRequeuedAt,
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":ids": texts(ids), ":now": number(now.UnixMilli()), ":expiry": number(now.Add(o.retention).Unix()),
		},
		// What is set aside meanwhile must not be forgotten.
		ConditionExpression: aws.String("attribute_exists(#a) AND attribute_not_exists(#aside)"),
	}
	if len(it.Aside) > 0 {
		in.ConditionExpression = aws.String("attribute_exists(#a) AND #aside = :ids")
	}
	if _, err := client.UpdateItem(ctx, in); err != nil {
		return 0, wrong(err)
	}
	return len(ids), nil
}

// hint says what to do about an error of DynamoDB, where that is known.
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
