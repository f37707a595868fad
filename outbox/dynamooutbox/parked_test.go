//go:build servers

package dynamooutbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// newRealEnv creates the environment on a DynamoDB, with a table of CreateTable.
func newRealEnv(t *testing.T, url string) *env {
	t.Helper()
	name := awstest.Name("outbox")
	s := &env{T: t, db: dynamostore.NewClient(awstest.Config(t, url)),
		outbox: newOutbox(t, dynamooutbox.Config{Table: name}), books: name + "-books"}
	if err := s.outbox.CreateTable(t.Context(), s.db); err != nil {
		t.Fatal(err)
	}
	awstest.DeleteTableAtEnd(t, s.db, s.outbox.Table())
	awstest.CreateTable(t, s.db, s.books, "id")
	s.open()
	awstest.DeleteTableAtEnd(t, s.db, s.store.Table())
	return s
}

// park adds events to the parked ones of an item.
func (s *env) park(it *dynamooutbox.Item, events []outbox.Event) {
	s.Helper()
	var ids []string
	for i := range events {
		ids = append(ids, events[i].ID)
	}
	_, err := s.db.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String(s.outbox.Table()), UpdateExpression: aws.String("ADD parked :ids"),
		Key: map[string]types.AttributeValue{
			dynamooutbox.AttrAggregate: &types.AttributeValueMemberS{Value: it.Aggregate},
			dynamooutbox.AttrID:        &types.AttributeValueMemberS{Value: it.ID},
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{":ids": &types.AttributeValueMemberSS{Value: ids}},
	})
	if err != nil {
		s.Fatal(err)
	}
}

// What Publish accepts, up to its limits, can be parked: an item has room for the relay's attributes, also if
// each of its events is parked with the longest reason.
func TestWhatPublishTakesCanBeParked(t *testing.T) {
	url := testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr()
	long := strings.Repeat("t", 249)
	many := func(size int, of func(e *outbox.Event)) (events []outbox.Event) {
		for n, left := 0, dynamooutbox.MaxSize; ; n++ {
			e := outbox.Event{ID: fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n), Topic: "t", Key: []byte("k"),
				Value: make([]byte, size)}
			of(&e)
			if left -= e.Size(); left < 0 {
				return events
			}
			events = append(events, e)
		}
	}
	headers := func(n int, value []byte) (headers []outbox.Header) {
		for range n {
			headers = append(headers, outbox.Header{Key: "h", Value: value})
		}
		return headers
	}
	for name, events := range map[string][]outbox.Event{
		"the largest value": many(dynamooutbox.MaxSize-1000, func(*outbox.Event) {}),
		"the largest key": many(0, func(e *outbox.Event) {
			e.Topic, e.Key = long, bytes.Repeat([]byte("k"), dynamooutbox.MaxSize-1000)
		}),
		"the longest key that is not hashed": many(350_000, func(e *outbox.Event) {
			e.Topic, e.Key = long, bytes.Repeat([]byte("k"), 1024)
		}),
		"bytes as key":      many(1000, func(e *outbox.Event) { e.Topic, e.Key = long, bytes.Repeat([]byte{0xff}, 2000) }),
		"many headers":      many(0, func(e *outbox.Event) { e.Headers = headers(20_000, []byte{}) }),
		"many null headers": many(0, func(e *outbox.Event) { e.Headers = headers(20_000, nil) }),
		"many events":       many(0, func(*outbox.Event) {}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newRealEnv(t, url)
			if len(events) == 0 {
				t.Fatal("no event fits")
			}
			if out := s.run("pay", func(ctx context.Context) error { return outbox.Publish(ctx, events...) }); out.Kind != idem.Executed {
				t.Fatal(out.Kind, out.Err)
			}
			r, err := dynamooutbox.NewRelay(s.outbox, s.db, refusing{strings.Repeat("why ", 1000)},
				dynamooutbox.RelayConfig{MaxAttempts: 1, Logger: discard()})
			if err != nil {
				t.Fatal(err)
			}
			var items []dynamooutbox.Item
			for _, it := range s.items(dynamooutbox.ListQuery{}) {
				items = append(items, it)
			}
			if n := len(events) - 1; n > 0 { // all but the last are parked at once, which saves time
				s.park(&items[0], items[0].Events[:n])
			}
			if res := r.Send(t.Context(), items); failed(res) != nil || res.Parked != 1 {
				t.Errorf("%d events were parked: %.300v", res.Parked, res.Errs)
			}
			for _, it := range s.items(dynamooutbox.ListQuery{Parked: true}) {
				if len(it.Parked) != len(events) || len(it.Failure) != 1000 {
					t.Errorf("%d events are parked, with a reason of %d bytes", len(it.Parked), len(it.Failure))
				}
			}
		})
	}
}

// An item of another program can be parked whatever is wrong with it, and is listed then.
func TestItemThatCanNotBeDecodedCanBeParked(t *testing.T) {
	url := testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr()
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	for name, wrong := range map[string]map[string]types.AttributeValue{
		"no events":                    {"topic": text("t")},
		"parked is no set":             {"topic": text("t"), "parked": text("yes")},
		"parked is a set of numbers":   {"parked": &types.AttributeValueMemberNS{Value: []string{"1"}}},
		"all attributes are of a kind": {"topic": text("t"), "events": text("e"), "key": text("k"), "createdAt": text("now")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRealEnv(t, url)
			table := s.outbox.Table()
			wrong[dynamooutbox.AttrAggregate], wrong[dynamooutbox.AttrID] = text("t#k"), text(firstID)
			if _, err := s.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: wrong}); err != nil {
				t.Fatal(err)
			}
			it, why := dynamooutbox.Decode(wrong)
			if !errors.Is(why, dynamooutbox.ErrNotAnItem) {
				t.Fatal(why)
			}
			r, err := dynamooutbox.NewRelay(s.outbox, s.db, refusing{}, dynamooutbox.RelayConfig{Logger: discard()})
			if err == nil {
				err = r.Reject(t.Context(), it, why)
			}
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, err := range s.outbox.List(t.Context(), s.db, dynamooutbox.ListQuery{Parked: true}) {
				if n++; err != nil && !errors.Is(err, dynamooutbox.ErrNotAnItem) {
					t.Error(err)
				}
			}
			if n != 1 {
				t.Errorf("%d items are listed", n)
			}
		})
	}
}
