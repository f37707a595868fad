package relay_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// table is a dynamooutbox.Client that records the IDs of parked events. At first none is parked.
type table struct{ ids []string }

// UpdateItem implements dynamooutbox.Client.
func (c *table) UpdateItem(_ context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	c.ids = append(c.ids, in.ExpressionAttributeValues[":ids"].(*types.AttributeValueMemberSS).Value...)
	return &dynamodb.UpdateItemOutput{}, nil
}

// BatchGetItem implements dynamooutbox.Client.
func (*table) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, nil
}

// The DynamoDB outbox's relay with a real producer and the errors of a broker: a missing topic and a record that is too large.
func TestRelayParksWhatABrokerRejects(t *testing.T) {
	c := newSmallCluster(t)
	box, err := dynamooutbox.New(dynamooutbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	parked := &table{}
	r, err := dynamooutbox.NewRelay(box, parked, newProducer(t, c, 0), dynamooutbox.RelayConfig{
		MaxAttempts: 2, RetryDelay: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	item := func(key, id string) dynamooutbox.Item {
		return dynamooutbox.Item{Aggregate: one + "#" + key, ID: id, CreatedAt: time.Now(), Events: []outbox.Event{
			{ID: id, Topic: one, Key: []byte(key), Value: []byte(id)},
		}}
	}
	large, nowhere := item("a", "a2"), item("a", "nowhere")
	large.Events[0].Value = make([]byte, 5000)
	_, _ = rand.Read(large.Events[0].Value) // random, so that it can't be compressed; never fails
	nowhere.Events[0].Topic = "nowhere"
	res := r.Send(t.Context(), []dynamooutbox.Item{item("a", "a1"), nowhere, large, item("a", "a3"), item("b", "b1")})
	if err := errors.Join(res.Errs...); err != nil || res.Published != 3 || res.Parked != 2 {
		t.Errorf("%+v", res)
	}
	slices.Sort(parked.ids)
	if !slices.Equal(parked.ids, []string{"a2", "nowhere"}) {
		t.Errorf("%q were parked", parked.ids)
	}
	got := make(map[string][]string) // values by key
	for _, r := range readRecords(t, c, 3, one) {
		if len(r.Headers) != 2 || string(r.Headers[0].Value) != string(r.Value) {
			t.Errorf("headers %v of event %.20q", r.Headers, r.Value)
		}
		got[string(r.Key)] = append(got[string(r.Key)], string(r.Value))
	}
	if !reflect.DeepEqual(got, map[string][]string{"a": {"a1", "a3"}, "b": {"b1"}}) {
		t.Errorf("the topic holds %q", got)
	}
}
