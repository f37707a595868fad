package dynamooutbox_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
	"github.com/idemsk/idemsk/outbox/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOutbox(t *testing.T, cfg dynamooutbox.Config) *dynamooutbox.Outbox {
	t.Helper()
	o, err := dynamooutbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// env is a test environment: a store with its table, a table for effects with the key "id", and an outbox.
type env struct {
	*testing.T
	db     *dynamodb.Client
	store  *dynamostore.Store
	outbox *dynamooutbox.Outbox
	books  string
}

// newEnv creates the environment on an in-process DynamoDB. It has no sort keys, so the items' IDs are the
// only key.
func newEnv(t *testing.T, cfg dynamooutbox.Config) *env {
	t.Helper()
	srv := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	s := &env{T: t, db: dynamostore.NewClient(awstest.Config(t, srv.URL())), outbox: newOutbox(t, cfg),
		books: "books"}
	for table, key := range map[string]string{s.outbox.Table(): dynamooutbox.AttrID, s.books: "id"} {
		if err := srv.CreateTable(dynamofake.Table{Name: table, HashKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	s.open()
	return s
}

// open creates the store and its table.
func (s *env) open() {
	s.Helper()
	table := "idemsk-" + rand.Text()
	err := dynamostore.CreateTable(s.Context(), s.db, table)
	if err == nil {
		s.store, err = dynamostore.New(s.db, dynamostore.Config{Table: table})
	}
	if err != nil {
		s.Fatal(err)
	}
}

// run runs a task whose handler writes an item and then publishes with f.
func (s *env) run(key string, f func(ctx context.Context) error) idem.Outcome {
	s.Helper()
	return s.runOn(s.store, key, f)
}

func (s *env) runOn(st store.Store, key string, f func(ctx context.Context) error) idem.Outcome {
	s.Helper()
	e, err := idem.New(st, idem.Config{})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
	defer cancel()
	handler := dynamooutbox.Handler(s.outbox, func(ctx context.Context, key string) ([]byte, error) {
		if tx, err := dynamostore.TxFrom(ctx); err == nil {
			if err := tx.Enlist(dynamostore.Write{Put: &types.Put{TableName: &s.books, Item: s.book(key)},
				PutKey: []string{"id"}}); err != nil {
				return nil, err
			}
		}
		return []byte(key), f(ctx)
	})
	return e.Do(ctx, idem.Task{Key: key, Source: "payments-1@2",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			return handler(ctx, key)
		})})
}

func (s *env) book(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: key}}
}

// booked reports whether the write of the task was committed.
func (s *env) booked(key string) bool {
	s.Helper()
	out, err := s.db.GetItem(s.Context(),
		&dynamodb.GetItemInput{TableName: &s.books, Key: s.book(key), ConsistentRead: aws.Bool(true)})
	if err != nil {
		s.Fatal(err)
	}
	return len(out.Item) > 0
}

// items returns the items of the outbox by aggregate and ID.
func (s *env) items(q dynamooutbox.ListQuery) map[[2]string]dynamooutbox.Item {
	s.Helper()
	items := make(map[[2]string]dynamooutbox.Item)
	for it, err := range s.outbox.List(s.Context(), s.db, q) {
		if err != nil {
			s.Fatal(err)
		}
		items[[2]string{it.Aggregate, it.ID}] = it
	}
	return items
}

// wantNothing checks that a task has committed nothing.
func (s *env) wantNothing(key string, out idem.Outcome, want error) {
	s.Helper()
	if out.Kind == idem.Executed || !errors.Is(out.Err, want) {
		s.Errorf("%v, %v; want %v", out.Kind, out.Err, want)
	}
	if s.booked(key) {
		s.Error("the handler's own write has landed")
	}
	if items := s.items(dynamooutbox.ListQuery{}); len(items) > 0 {
		s.Errorf("the outbox holds %+v", items)
	}
}

const (
	firstID  = "019a7c54-0000-7000-8000-000000000001"
	secondID = "019a7c54-0000-7000-8000-000000000002"
	thirdID  = "019a7c54-0000-7000-8000-000000000003"
)

func event(id, topic, key, value string) outbox.Event {
	e := outbox.Event{ID: id, Topic: topic, Value: []byte(value)}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

// refusing is a Sender that rejects all events.
type refusing struct{ why string }

func (r refusing) Send(_ context.Context, events []outbox.Event) []error {
	errs := make([]error, len(events))
	for i := range errs {
		errs[i] = fmt.Errorf("%w: %s", relay.ErrRejected, r.why)
	}
	return errs
}
