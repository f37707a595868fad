//go:build rest

package dynamooutbox_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

// raw returns the only item of an aggregate.
func (s *env) raw(aggregate, id string) map[string]types.AttributeValue {
	s.Helper()
	out, err := s.db.GetItem(s.Context(),
		&dynamodb.GetItemInput{TableName: ptr(s.outbox.Table()), ConsistentRead: aws.Bool(true),
			Key: map[string]types.AttributeValue{
				dynamooutbox.AttrAggregate: &types.AttributeValueMemberS{Value: aggregate},
				dynamooutbox.AttrID:        &types.AttributeValueMemberS{Value: id},
			}})
	if err != nil {
		s.Fatal(err)
	}
	return out.Item
}

// The lifecycle of a poison event on a real table: committed, rejected, parked, requeued and sent. Even the
// largest items have room for the relay's attributes.
func TestParkAndRequeueOnLocalStack(t *testing.T) {
	s := newRealEnv(t, awstest.LocalStack(t))
	before := time.Now()
	full := event(firstID, "t", "k", strings.Repeat("x", dynamooutbox.MaxSize-1000))
	if out := s.run("pay-1", func(ctx context.Context) error {
		return outbox.Publish(ctx, full, event(secondID, "t", "k", "two"))
	}); out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	if out := s.run("pay-2", func(ctx context.Context) error {
		return outbox.Publish(ctx, event(thirdID, "t", "k", "three"))
	}); out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	items := s.items(dynamooutbox.ListQuery{From: before.Add(-time.Second), To: time.Now().Add(time.Second)})
	it := items[[2]string{"t#k", firstID}]
	if len(items) != 2 || len(it.Events) != 2 {
		t.Fatalf("%d items, the first with %d events; want 2, 2", len(items), len(it.Events))
	}
	if none := s.items(dynamooutbox.ListQuery{To: before.Add(-time.Second)}); len(none) != 0 {
		t.Errorf("%d items of before the test", len(none))
	}

	why := strings.Repeat("ä", 2000) // longer than the stored maximum
	k := &kafka{says: map[string]error{string(full.Value): errors.Join(relay.ErrRejected, errors.New(why)),
		"two": relay.ErrRejected}}
	r := newRelayOn(t, s.outbox, s.db, k)
	if res := r.Send(t.Context(), []dynamooutbox.Item{it}); res.Errs[0] != nil || res.Parked != 2 {
		t.Fatalf("%+v", res)
	}
	if res := r.Send(t.Context(), []dynamooutbox.Item{it}); res.Errs[0] != nil ||
		res.Published+res.Rejected != 0 {
		t.Errorf("with the image of before they were sent again: %+v", res)
	}
	parked := s.items(dynamooutbox.ListQuery{Parked: true})
	it = parked[[2]string{"t#k", firstID}]
	slices.Sort(it.Parked)
	if len(parked) != 1 || !slices.Equal(it.Parked, []string{firstID, secondID}) || it.Failure == "" ||
		it.Attempts != 1 || it.ParkedAt.Before(before.Truncate(time.Millisecond)) {
		t.Errorf("parked: %d items, %v, %d attempts, at %v, %q", len(parked), it.Parked, it.Attempts,
			it.ParkedAt, it.Failure)
	}
	if s.raw("t#k", firstID)[dynamooutbox.AttrExpiry] != nil {
		t.Error("an item with parked events has an expiry")
	}

	if n, err := s.outbox.Requeue(t.Context(), s.db, "t#k", firstID); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	raw := s.raw("t#k", firstID)
	it, err := dynamooutbox.Decode(raw)
	if err != nil || len(it.Parked) != 0 || len(it.Pending()) != 2 || raw[dynamooutbox.AttrExpiry] == nil ||
		raw[dynamooutbox.AttrRequeuedAt] == nil {
		t.Errorf("requeued: %v, %v, %d pending", err, it.Parked, len(it.Pending()))
	}
	delete(k.says, "two")
	if res := r.Send(t.Context(), []dynamooutbox.Item{it}); res.Errs[0] != nil || res.Parked != 1 ||
		res.Published != 1 {
		t.Errorf("after the requeue: %+v", res)
	}
	it = s.items(dynamooutbox.ListQuery{Parked: true})[[2]string{"t#k", firstID}]
	if !reflect.DeepEqual(it.Parked, []string{firstID}) || it.Requeued != nil {
		t.Errorf("parked again: %v, requeued %v", it.Parked, it.Requeued)
	}

	// An item without parked events is requeued as a whole.
	if n, err := s.outbox.Requeue(t.Context(), s.db, "t#k", thirdID); err != nil || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := s.outbox.Requeue(t.Context(), s.db, "t#k", "nothing"); !errors.Is(err,
		dynamooutbox.ErrNoItem) {
		t.Errorf("%v; want ErrNoItem", err)
	}
	gone := it
	gone.ID = "gone"
	gone.Parked = nil
	k.says["two"] = relay.ErrRejected
	if res := r.Send(t.Context(), []dynamooutbox.Item{gone}); res.Errs[0] != nil ||
		s.raw("t#k", "gone") != nil {
		t.Errorf("an item that was deleted: %v; in the table: %v", res.Errs, s.raw("t#k", "gone"))
	}
}

func newRelayOn(t *testing.T, o *dynamooutbox.Outbox, c dynamooutbox.Client,
	s dynamooutbox.Sender) *dynamooutbox.Relay {
	t.Helper()
	r, err := dynamooutbox.NewRelay(o, c, s, dynamooutbox.RelayConfig{MaxAttempts: 1, Logger: discard()})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The table fits the relay. Creating it twice is an error.
func TestCreateTableOnLocalStack(t *testing.T) {
	s := newRealEnv(t, awstest.LocalStack(t))
	out, err := s.db.DescribeTable(t.Context(),
		&dynamodb.DescribeTableInput{TableName: ptr(s.outbox.Table())})
	if err != nil {
		t.Fatal(err)
	}
	if stream := out.Table.StreamSpecification; stream == nil ||
		stream.StreamViewType != types.StreamViewTypeNewImage ||
		aws.ToString(out.Table.LatestStreamArn) == "" {
		t.Errorf("the stream is %+v", stream)
	}
	ttl, err := s.db.DescribeTimeToLive(t.Context(),
		&dynamodb.DescribeTimeToLiveInput{TableName: ptr(s.outbox.Table())})
	if err != nil || aws.ToString(ttl.TimeToLiveDescription.AttributeName) != dynamooutbox.AttrExpiry {
		t.Errorf("TTL: %+v, %v", ttl, err)
	}
	none := newOutbox(t, dynamooutbox.Config{Table: "no-such-table"})
	for _, err := range none.List(t.Context(), s.db, dynamooutbox.ListQuery{}) {
		if err == nil || !strings.Contains(err.Error(), "does not exist in this account and region") {
			t.Errorf("%v", err)
		}
	}
}
