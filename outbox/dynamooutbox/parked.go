package dynamooutbox

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// maxKeys is the maximum number of items in one BatchGetItem.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
const maxKeys = 100

// place is an item's key.
type place struct{ aggregate, id string }

// readParked updates the parked events of items from the table. The stream shows an item as it was when it
// was written or requeued. A redelivered batch can contain events that were parked meanwhile and must not be
// sent after later events of their key. The read costs a read unit for each 4 KB of an item. Deleted items
// keep the state of the stream.
func (r *Relay) readParked(ctx context.Context, items []Item) error {
	var keys []map[string]types.AttributeValue
	seen := make(map[place]bool, len(items))
	for i := range items {
		at := place{items[i].Aggregate, items[i].ID}
		if !seen[at] {
			seen[at] = true
			keys = append(keys, itemKey(at.aggregate, at.id))
		}
	}
	parked := make(map[place][]string)
	for len(keys) > 0 {
		n := min(len(keys), maxKeys)
		if err := r.readKeys(ctx, keys[:n], parked); err != nil {
			return err
		}
		keys = keys[n:]
	}
	for i := range items {
		if ids, ok := parked[place{items[i].Aggregate, items[i].ID}]; ok {
			items[i].Parked = ids
		}
	}
	return nil
}

// readKeys reads up to maxKeys items. It retries the unprocessed keys, with a pause if a request returned
// nothing.
func (r *Relay) readKeys(ctx context.Context, keys []map[string]types.AttributeValue,
	parked map[place][]string) error {
	request := types.KeysAndAttributes{
		Keys: keys, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("#a, #id, #parked"),
		ExpressionAttributeNames: map[string]string{"#a": AttrAggregate, "#id": AttrID,
			"#parked": attrParked},
	}
	pause := dynamostore.FirstBackoff
	for attempt := 1; ; attempt++ {
		out, err := r.client.BatchGetItem(ctx,
			&dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{r.outbox.table: request}})
		if err != nil {
			return fmt.Errorf("dynamooutbox: reading the parked events of table %s: %w%s", r.outbox.table,
				err, hint(err))
		}
		for _, av := range out.Responses[r.outbox.table] {
			d := decoder{item: av}
			at := place{d.text(AttrAggregate), d.text(AttrID)}
			parked[at] = d.texts(attrParked)
		}
		left := out.UnprocessedKeys[r.outbox.table].Keys
		switch {
		case len(left) == 0:
			return nil
		case len(left) < len(request.Keys):
			attempt, pause = 0, dynamostore.FirstBackoff
		case attempt == dynamostore.MaxAttempts || !wait(ctx, pause):
			return fmt.Errorf("dynamooutbox: %d items of table %s could not be read: the table is throttled",
				len(left), r.outbox.table)
		default:
			pause = min(2*pause, dynamostore.MaxBackoff)
		}
		request.Keys = left
	}
}
