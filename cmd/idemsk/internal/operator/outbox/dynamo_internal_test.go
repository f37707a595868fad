package outbox

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// fakeItems is a table without the items of the aggregate "gone". The items of "changed" change before each
// update.
type fakeItems struct {
	dynamooutbox.AdminClient
	away bool
}

func (f *fakeItems) GetItem(_ context.Context, in *dynamodb.GetItemInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	aggregate, _ := in.Key[dynamooutbox.AttrAggregate].(*types.AttributeValueMemberS)
	switch {
	case f.away:
		return nil, &types.ResourceNotFoundException{}
	case aggregate.Value == "gone":
		return &dynamodb.GetItemOutput{}, nil
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	event := &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"id": text("e")}}
	return &dynamodb.GetItemOutput{Item: map[string]types.AttributeValue{
		dynamooutbox.AttrAggregate: aggregate, dynamooutbox.AttrID: in.Key[dynamooutbox.AttrID],
		"topic":     text("credited"),
		"createdAt": &types.AttributeValueMemberN{Value: "1"},
		"events":    &types.AttributeValueMemberL{Value: []types.AttributeValue{event}},
	}}, nil
}

func (f *fakeItems) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput,
	_ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	if aggregate, _ := in.Key[dynamooutbox.AttrAggregate].(*types.AttributeValueMemberS); aggregate.Value == "changed" {
		return nil, &types.ConditionalCheckFailedException{}
	}
	return &dynamodb.UpdateItemOutput{}, nil
}

// An item that another operator requeues or deletes is named, as in PostgreSQL.
func TestEntriesGoneFromDynamoDBAreNamed(t *testing.T) {
	t.Parallel()
	box, err := dynamooutbox.New(dynamooutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	entries := []Entry{{ID: "1", Aggregate: "gone"}, {ID: "2", Aggregate: "changed"}}
	for n := range 40 {
		entries = append(entries, Entry{ID: fmt.Sprint(n), Aggregate: fmt.Sprint("a", n%20)})
	}
	events, problems, err := (&dynamoOutbox{box: box, db: &fakeItems{}}).requeue(t.Context(), entries)
	if named := errors.Join(problems...); events != 40 || len(problems) != 2 ||
		!errors.Is(named, dynamooutbox.ErrNoItem) || err != nil {
		t.Errorf("%d, %v, %v; want 40, and two named", events, problems, err)
	}
	var missing *types.ResourceNotFoundException
	if events, problems, err := (&dynamoOutbox{box: box, db: &fakeItems{away: true}}).requeue(t.Context(),
		entries); events+len(problems) != 0 || !errors.As(err, &missing) {
		t.Errorf("without the table: %d, %v, %v; want nothing and the error", events, problems, err)
	}
}
