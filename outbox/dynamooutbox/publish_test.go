package dynamooutbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// Events commit with the handler's own write. Those of one topic and key are in one item and in order, even
// from separate calls. Each event without a key has its own item. The decoded events equal the published
// ones.
func TestEventsCommitWithTheEffect(t *testing.T) {
	s := newEnv(t, dynamooutbox.Config{})
	value := []byte("one")
	full := outbox.Event{ID: firstID, Topic: "credited", Key: []byte("acc-1"), Value: value,
		Headers: []outbox.Header{
			{Key: "event-type", Value: []byte("v1")}, {Key: "empty", Value: []byte{}}, {Key: "null"},
		}}
	tombstone := outbox.Event{ID: secondID, Topic: "credited", Key: []byte("acc-1")}
	elsewhere := event(thirdID, "debited", "acc-1", "")
	begun := time.Now().Truncate(time.Millisecond)
	out := s.run("pay-1", func(ctx context.Context) error {
		if err := outbox.Publish(ctx, full, elsewhere); err != nil {
			return err
		}
		copy(value, "two") // a later change has no effect
		return outbox.Publish(ctx, tombstone, outbox.Event{Topic: "free", Value: []byte("a")},
			outbox.Event{Topic: "free", Value: []byte("b")})
	})
	if out.Kind != idem.Executed || string(out.Result) != "pay-1" || !s.booked("pay-1") {
		t.Fatalf("%v, %v, result %q, booked %v", out.Kind, out.Err, out.Result, s.booked("pay-1"))
	}
	full.Value = []byte("one")
	items := s.items(dynamooutbox.ListQuery{})
	if len(items) != 4 {
		t.Errorf("%d items: %+v; want 4", len(items), items)
	}
	it := items[[2]string{"credited#acc-1", firstID}]
	if want := []outbox.Event{full, tombstone}; !reflect.DeepEqual(it.Events, want) ||
		!reflect.DeepEqual(it.Pending(), want) {
		t.Errorf("the item holds %+v; want %+v", it, want)
	}
	if it.CreatedAt.Before(begun) || it.CreatedAt.After(time.Now()) {
		t.Errorf("created at %v; begun at %v", it.CreatedAt, begun)
	}
	if it := items[[2]string{"debited#acc-1", thirdID}]; !reflect.DeepEqual(it.Events,
		[]outbox.Event{elsewhere}) {
		t.Errorf("the other topic's item is %+v", it)
	}
	s.wantExpiry(dynamooutbox.DefaultRetention)
}

// An empty key is a key: its event is in no item of an event without a key, and keeps it.
func TestEmptyKeyStaysAKey(t *testing.T) {
	s := newEnv(t, dynamooutbox.Config{})
	empty := outbox.Event{ID: secondID, Topic: "t", Key: []byte{}, Value: []byte("b")}
	s.run("pay-1", func(ctx context.Context) error {
		return outbox.Publish(ctx, event(firstID, "t", "", "a"), empty)
	})
	items := s.items(dynamooutbox.ListQuery{})
	if it := items[[2]string{"t#", secondID}]; len(items) != 2 ||
		!reflect.DeepEqual(it.Events, []outbox.Event{empty}) {
		t.Errorf("%+v; want an item of the empty key with %+v", items, empty)
	}
}

func (s *env) wantExpiry(retention time.Duration) {
	s.Helper()
	out, err := s.db.Scan(s.Context(), &dynamodb.ScanInput{TableName: ptr(s.outbox.Table())})
	if err != nil {
		s.Fatal(err)
	}
	for _, item := range out.Items {
		n := item[dynamooutbox.AttrExpiry].(*types.AttributeValueMemberN).Value
		var expiry int64
		if _, err := fmt.Sscan(n, &expiry); err != nil {
			s.Fatal(err)
		}
		if left := time.Until(time.Unix(expiry, 0)); left > retention || left < retention-time.Minute {
			s.Errorf("an item expires in %v; want %v", left, retention)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// If the task fails, neither the events nor the effect are committed.
func TestNothingIsPublishedWithoutTheEffect(t *testing.T) {
	errHandler := errors.New("the handler failed")
	publish := func(ctx context.Context) error {
		return outbox.Publish(ctx, event(firstID, "credited", "acc-1", "x"))
	}
	t.Run("the handler fails", func(t *testing.T) {
		s := newEnv(t, dynamooutbox.Config{})
		s.wantNothing("pay", s.run("pay",
			func(ctx context.Context) error { return errors.Join(publish(ctx), errHandler) }), errHandler)
	})
	t.Run("another write's condition fails", func(t *testing.T) {
		s := newEnv(t, dynamooutbox.Config{})
		out := s.run("pay", func(ctx context.Context) error {
			tx, err := dynamostore.TxFrom(ctx)
			if err != nil {
				return err
			}
			check := &types.ConditionCheck{TableName: &s.books, Key: s.book("account"),
				ConditionExpression: ptr("attribute_exists(id)")}
			return errors.Join(publish(ctx), tx.Enlist(dynamostore.Write{Check: check, OrElse: errHandler}))
		})
		s.wantNothing("pay", out, errHandler)
	})
	t.Run("an event that is not valid, and a handler that does not mind", func(t *testing.T) {
		s := newEnv(t, dynamooutbox.Config{})
		out := s.run("pay", func(ctx context.Context) error {
			_ = publish(ctx)
			_ = publish(ctx) // the same ID
			return nil
		})
		s.wantNothing("pay", out, outbox.ErrInvalidEvent)
	})
	t.Run("there is no transaction", func(t *testing.T) {
		s := newEnv(t, dynamooutbox.Config{})
		out := s.runOn(memstore.New(memstore.Config{}), "pay", publish)
		if out.Kind != idem.DependencyDown || !strings.Contains(out.Err.Error(), "there is no transaction") {
			t.Errorf("%v, %v", out.Kind, out.Err)
		}
		s.wantNothing("pay", out, out.Err)
	})
}

// A handler that publishes nothing needs no transaction.
func TestNothingToPublish(t *testing.T) {
	s := newEnv(t, dynamooutbox.Config{})
	nothing := func(ctx context.Context) error { return outbox.Publish(ctx) }
	for name, st := range map[string]store.Store{"dynamostore": s.store,
		"memstore": memstore.New(memstore.Config{})} {
		if out := s.runOn(st, "pay", nothing); out.Kind != idem.Executed || string(out.Result) != "pay" {
			t.Errorf("%s: %v, %v, result %q", name, out.Kind, out.Err, out.Result)
		}
	}
}

// An ID that exists would change its item instead of creating one, and no relay would see the event.
func TestIDIsPublishedOnce(t *testing.T) {
	s := newEnv(t, dynamooutbox.Config{})
	publish := func(ctx context.Context) error {
		return outbox.Publish(ctx, event(firstID, "credited", "acc-1", "x"))
	}
	if out := s.run("pay-1", publish); out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	out := s.run("pay-2", publish)
	if out.Kind == idem.Executed || !errors.Is(out.Err, dynamooutbox.ErrPublished) ||
		!strings.Contains(out.Err.Error(), firstID) {
		t.Errorf("%v, %v; want ErrPublished, naming the ID", out.Kind, out.Err)
	}
	if s.booked("pay-2") {
		t.Error("the effect has taken place without its event")
	}
}

// An event that is too large is an error of Publish that names the event.
func TestTooLargeEventIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg    dynamooutbox.Config
		events []outbox.Event
		want   string // "" means no error
	}{
		"an event alone": {dynamooutbox.Config{MaxSize: 500},
			[]outbox.Event{event(firstID, "t", "k", strings.Repeat("x", 500))}, firstID},
		"those of a key": {dynamooutbox.Config{MaxSize: 500}, []outbox.Event{
			event(firstID, "t", "k", strings.Repeat("x", 200)),
			event(secondID, "t", "k", strings.Repeat("x", 200)),
		}, secondID},
		"those of different keys": {dynamooutbox.Config{MaxSize: 500}, []outbox.Event{
			event(firstID, "t", "k", strings.Repeat("x", 200)),
			event(secondID, "t", "l", strings.Repeat("x", 200)),
		}, ""},
		"those without key": {dynamooutbox.Config{MaxSize: 500}, []outbox.Event{
			event(firstID, "t", "", strings.Repeat("x", 200)),
			event(secondID, "t", "", strings.Repeat("x", 200)),
		}, ""},
		// DynamoDB accepts an item of the maximum size.
		"the largest": {dynamooutbox.Config{},
			[]outbox.Event{event(firstID, "t", "k", strings.Repeat("x", dynamooutbox.MaxSize-250))}, ""},
		"the smallest, as many as fit": {dynamooutbox.Config{}, func() (events []outbox.Event) {
			for n := range dynamooutbox.MaxSize / 250 {
				events = append(events, event(fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n), "t", "k", ""))
			}
			return events
		}(), ""},
	} {
		for way, publish := range map[string]func(ctx context.Context) error{
			"at once": func(ctx context.Context) error { return outbox.Publish(ctx, tc.events...) },
			"one by one": func(ctx context.Context) (err error) {
				for _, e := range tc.events {
					err = errors.Join(err, outbox.Publish(ctx, e))
				}
				return err
			},
		} {
			t.Run(name+", "+way, func(t *testing.T) {
				s := newEnv(t, tc.cfg)
				out := s.run("pay", publish)
				if tc.want == "" {
					if out.Kind != idem.Executed {
						t.Errorf("%v, %v", out.Kind, out.Err)
					}
					return
				}
				if !errors.Is(out.Err, outbox.ErrInvalidEvent) ||
					!strings.Contains(out.Err.Error(), tc.want) {
					t.Errorf("%v; want ErrInvalidEvent, naming %s", out.Err, tc.want)
				}
				s.wantNothing("pay", out, outbox.ErrInvalidEvent)
			})
		}
	}
}

// If the result can't be encoded, the effect and the events still commit. If an event could not be published,
// nothing commits.
func TestUnencodableResultKeepsTheEvents(t *testing.T) {
	errEncode := idem.ResultUnavailable(errors.New("no JSON"))
	s := newEnv(t, dynamooutbox.Config{})
	out := s.run("pay", func(ctx context.Context) error {
		if err := outbox.Publish(ctx, event(firstID, "t", "k", "x")); err != nil {
			return err
		}
		return errEncode
	})
	if out.Kind != idem.Executed || !errors.Is(out.Err, store.ErrResultNotStored) || !s.booked("pay") {
		t.Errorf("%v, %v, booked %v", out.Kind, out.Err, s.booked("pay"))
	}
	if items := s.items(dynamooutbox.ListQuery{}); len(items) != 1 {
		t.Errorf("the effect took place, and the outbox holds %+v", items)
	}

	s = newEnv(t, dynamooutbox.Config{})
	s.wantNothing("pay", s.run("pay", func(ctx context.Context) error {
		_ = outbox.Publish(ctx, event(firstID, "t", "k", "x"))
		_ = outbox.Publish(ctx, event(firstID, "t", "k", "x")) // the same ID
		return errEncode
	}), outbox.ErrInvalidEvent)
}

// The error that the handler returns decides, not that of Publish.
func TestHandlerCanMarkAnErrorOfPublish(t *testing.T) {
	s := newEnv(t, dynamooutbox.Config{})
	var said error
	handler := dynamooutbox.Handler(s.outbox, func(ctx context.Context, _ string) ([]byte, error) {
		_ = outbox.Publish(ctx, event(firstID, "t", "k", "x"))
		return nil, idem.Permanent(outbox.Publish(ctx, event(firstID, "t", "k", "x")))
	})
	s.run("pay", func(ctx context.Context) error {
		_, said = handler(ctx, "pay")
		return said
	})
	if !idem.IsPermanent(said) || !errors.Is(said, outbox.ErrInvalidEvent) {
		t.Errorf("%v; want a permanent ErrInvalidEvent", said)
	}
}

// A goroutine that outlives its handler can't publish.
func TestPublishFailsAfterTheHandlerReturned(t *testing.T) {
	s := newEnv(t, dynamooutbox.Config{})
	returned, said := make(chan struct{}), make(chan error, 1)
	out := s.run("pay", func(ctx context.Context) error {
		go func() {
			<-returned
			said <- outbox.Publish(ctx, event(firstID, "t", "k", "x"))
		}()
		return nil
	})
	if out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	close(returned)
	err := <-said
	if err == nil || !strings.Contains(err.Error(), "the handler has returned") {
		t.Errorf("%v", err)
	}
}

// Long or binary keys have a partition key of up to 2048 bytes, equal for equal keys.
func TestPartitionKeys(t *testing.T) {
	long, odd := bytes.Repeat([]byte("k"), 5000), []byte{0xff, 0xfe}
	s := newEnv(t, dynamooutbox.Config{})
	if out := s.run("pay", func(ctx context.Context) error {
		return outbox.Publish(ctx, outbox.Event{Topic: "t", Key: long}, outbox.Event{Topic: "t", Key: odd},
			outbox.Event{Topic: "t", Key: []byte{}},
			outbox.Event{Topic: "t", Key: long})
	}); out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	items := s.items(dynamooutbox.ListQuery{})
	if len(items) != 3 {
		t.Errorf("%d items; want 3: %+v", len(items), items)
	}
	for key, it := range items {
		k := it.Events[0].Key
		if k == nil || len(key[0]) > 2048 ||
			(len(k) == len(long) && (len(it.Events) != 2 || !bytes.Equal(k, long))) {
			t.Errorf("%q: %d events, key of %d bytes", key, len(it.Events), len(k))
		}
		if strings.HasPrefix(key[0], "t#sha256:") != (len(k) > 0) { // the others are not valid text
			t.Errorf("key %q has the partition key %q", k, key[0])
		}
	}
}

func TestWrongConfig(t *testing.T) {
	_, err := dynamooutbox.New(dynamooutbox.Config{Table: "a b", Retention: time.Hour,
		MaxSize: dynamooutbox.MaxSize + 1})
	for _, field := range []string{"Table", "Retention", "MaxSize"} {
		if !errors.Is(err, dynamooutbox.ErrInvalidConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v; want ErrInvalidConfig, naming %s", err, field)
		}
	}
	_, err = dynamooutbox.NewRelay(nil, nil, nil, dynamooutbox.RelayConfig{MaxAttempts: -1, RetryDelay: -1})
	for _, field := range []string{"the outbox", "MaxAttempts", "RetryDelay"} {
		if !errors.Is(err, dynamooutbox.ErrInvalidConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v; want ErrInvalidConfig, naming %s", err, field)
		}
	}
}
