package dynamooutbox

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
)

// maxKeys is how many items one BatchGetItem reads.
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html
const maxKeys = 100

// place is an item's key.
type place struct{ aggregate, id string }

// readParked sets the Aside of items to what it is by now. In the stream an item is as it was when it was written or requeued. A
// batch that is delivered again shows events as pending that were parked meanwhile, behind which later ones of their key have
// gone out: these must stay behind. It costs a read unit for each 4 KB of an item. An item that is gone stays as it was shown.
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
		if ids, there := parked[place{items[i].Aggregate, items[i].ID}]; there {
			items[i].Aside = ids
		}
	}
	return nil
}

// readKeys reads up to maxKeys items. Those that DynamoDB leaves out, as the answer would be too large or the table is
// throttled, it asks for again, with a pause where nothing came.
func (r *Relay) readKeys(ctx context.Context, keys []map[string]types.AttributeValue, parked map[place][]string) error {
	request := types.KeysAndAttributes{
		Keys: keys, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String("#a, #id, #aside"),
		ExpressionAttributeNames: map[string]string{"#a": AttrAggregate, "#id": AttrID, "#aside": AttrAside},
	}
	pause := dynamostore.FirstBackoff
	for attempt := 1; ; attempt++ {
		out, err := r.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{r.outbox.table: request}})
		if err != nil {
			return fmt.Errorf("dynamooutbox: reading what is set aside in table %s: %w%s", r.outbox.table, err, hint(err))
		}
		for _, av := range out.Responses[r.outbox.table] {
			d := decoder{item: av}
			at := place{d.text(AttrAggregate), d.text(AttrID)}
			parked[at] = d.texts(AttrAside)
		}
		left := out.UnprocessedKeys[r.outbox.table].Keys
		switch {
		case len(left) == 0:
			return nil
		case len(left) < len(request.Keys):
			attempt, pause = 0, dynamostore.FirstBackoff
		case attempt == dynamostore.MaxAttempts || !wait(ctx, pause):
			return fmt.Errorf("dynamooutbox: %d items of table %s could not be read, and whether they are set aside: the table is throttled", len(left), r.outbox.table)
		default:
			pause = min(2*pause, dynamostore.MaxBackoff)
		}
		request.Keys = left
	}
}
