package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// canceller is a client that can answer a transaction itself, without sending it.
type canceller struct {
	dynamostore.Client
	say func(n int, in *dynamodb.TransactWriteItemsInput) error

	mu    sync.Mutex
	sent  []*dynamodb.TransactWriteItemsInput
	items []int // the number of items of each transaction
}

// TransactWriteItems implements dynamostore.Client.
func (c *canceller) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput,
	opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	c.mu.Lock()
	c.sent, c.items = append(c.sent, in), append(c.items, len(in.TransactItems))
	n := len(c.sent)
	c.mu.Unlock()
	if c.say != nil {
		if err := c.say(n, in); err != nil {
			return nil, err
		}
	}
	return c.Client.TransactWriteItems(ctx, in, opts...)
}

// books is a store, its client, and a table for effects with the key "id".
type books struct {
	*dynamostore.Store
	client *canceller
	wire   *wire
	table  string
}

func newBooks(t *testing.T) *books {
	t.Helper()
	w := newWire(t)
	c := client(w, fake(t).URL())
	b := &books{client: &canceller{Client: c}, wire: w, table: "books"}
	awstest.CreateTable(t, c, b.table, "id")
	keys := newStore(t, c, dynamostore.Config{}).Table()
	var err error
	if b.Store, err = dynamostore.New(b.client, dynamostore.Config{Table: keys}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *books) id(name string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: name}}
}

func text(value string) types.AttributeValue { return &types.AttributeValueMemberS{Value: value} }

func (b *books) put(name string) dynamostore.Write {
	return dynamostore.Write{Put: &types.Put{TableName: &b.table, Item: b.id(name)}, PutKey: []string{"id"}}
}

// run runs a task whose handler enlists writes.
func (b *books) run(t *testing.T, cfg idem.Config, key string, writes ...dynamostore.Write) idem.Outcome {
	t.Helper()
	e, err := idem.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return e.Do(ctx, b.task(key, writes...))
}

// task returns a task whose handler enlists writes.
func (*books) task(key string, writes ...dynamostore.Write) idem.Task {
	return idem.Task{Key: key, Source: "payments-1@2",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			tx, err := dynamostore.TxFrom(ctx)
			if err != nil {
				return nil, err
			}
			_ = tx.Enlist(writes...) // the transaction keeps the error
			return nil, nil
		})}
}

// A write that can't be part of a transaction is the handler's error, which names the write and the reason.
// No request is sent.
func TestWritesThatCantBeEnlisted(t *testing.T) {
	b := newBooks(t)
	many := make([]dynamostore.Write, dynamostore.MaxTxItems)
	for i := range many {
		many[i] = b.put(fmt.Sprint("item-", i))
	}
	big := func(name string, size int) dynamostore.Write {
		w := b.put(name)
		w.Put.Item["text"] = &types.AttributeValueMemberS{Value: strings.Repeat("x", size)}
		return w
	}
	var large []dynamostore.Write
	for i := range 10 {
		large = append(large, big(fmt.Sprint("large-", i), 390<<10))
	}
	keys := b.Table()
	bad := map[string]struct {
		writes []dynamostore.Write
		want   string
	}{
		"too many": {many, "write 100, on item {id: \"item-99\"} of table books: a transaction has at most 100 items, one of which is the key's"},
		"an item twice": {[]dynamostore.Write{b.put("a"), b.put("b"), b.put("a")},
			"write 3, on item {id: \"a\"} of table books: it is enlisted already"},
		"too large": {[]dynamostore.Write{big("huge", 401<<10)},
			"write 1, on item {id: \"huge\"} of table books: it has 410"},
		"together": {large, "makes the transaction too large"},
		"our own table": {[]dynamostore.Write{{Delete: &types.Delete{TableName: &keys, Key: b.id("a")}}},
			"holds the idempotency keys"},
		"no operation": {[]dynamostore.Write{{}}, "write 1: it has 0 operations"},
		"two operations": {[]dynamostore.Write{{Put: b.put("a").Put, PutKey: []string{"id"},
			Delete: &types.Delete{TableName: &b.table, Key: b.id("a")}}}, "it has 2 operations"},
		"no table": {[]dynamostore.Write{{Update: &types.Update{Key: b.id("a")}}},
			"its TableName is missing"},
		"no key": {[]dynamostore.Write{{Check: &types.ConditionCheck{TableName: &b.table}}},
			"its Key is missing"},
		"no update": {[]dynamostore.Write{{Update: &types.Update{TableName: &b.table, Key: b.id("a")}}},
			"its UpdateExpression is missing"},
		"no condition": {[]dynamostore.Write{{Check: &types.ConditionCheck{TableName: &b.table, Key: b.id("a"),
			ConditionExpression: aws.String("")}}}, "its ConditionExpression is missing"},
		"a nil value": {[]dynamostore.Write{{Put: &types.Put{TableName: &b.table, Item: map[string]types.AttributeValue{
			"id": text("a"), "list": &types.AttributeValueMemberL{Value: []types.AttributeValue{text("b"), nil}}}},
			PutKey: []string{"id"}}}, "Item.list[1] is nil"},
		"a nil pointer": {[]dynamostore.Write{{Delete: &types.Delete{TableName: &b.table, Key: b.id("a"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":a": (*types.AttributeValueMemberS)(nil)}}}},
			"ExpressionAttributeValues.:a is nil"},
		"a type of its own": {[]dynamostore.Write{{Delete: &types.Delete{TableName: &b.table,
			Key: map[string]types.AttributeValue{"id": struct{ *types.AttributeValueMemberS }{}}}}},
			"want an attribute value of the SDK"},
		"no PutKey": {[]dynamostore.Write{{Put: b.put("a").Put}}, "PutKey is []"},
		"another PutKey": {[]dynamostore.Write{{Put: b.put("a").Put, PutKey: []string{"pk"}}},
			`PutKey is ["pk"]`},
		"a boolean a key": {[]dynamostore.Write{{Delete: &types.Delete{TableName: &b.table,
			Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberBOOL{}}}}},
			"key attribute id"},
	}
	for name, tc := range bad {
		t.Run(name, func(t *testing.T) {
			out := b.run(t, idem.Config{}, name, tc.writes...)
			if out.Kind != idem.Retry || !errors.Is(out.Err, dynamostore.ErrInvalidWrite) ||
				!strings.Contains(out.Err.Error(), tc.want) {
				t.Errorf("%v, %v; want %q", out.Kind, out.Err, tc.want)
			}
		})
	}
	if len(b.client.sent) > 0 {
		t.Errorf("%d transactions were sent", len(b.client.sent))
	}
}

func TestRefusedTransactionIsTheHandlersError(t *testing.T) {
	missing := "no-such-table"
	b := newBooks(t)
	absent := dynamostore.Write{Put: &types.Put{TableName: &missing, Item: b.id("a")}, PutKey: []string{"id"}}
	nonsense := dynamostore.Write{Update: &types.Update{TableName: &b.table, Key: b.id("a"),
		UpdateExpression: aws.String("SET nothing")}}
	for _, tc := range []struct {
		name  string
		write dynamostore.Write
		kind  idem.Kind
		want  []string
	}{
		{"a table that does not exist", absent, idem.DependencyDown, []string{missing, "does not exist"}},
		{"an expression that is none", nonsense, idem.Retry, []string{b.table, "ValidationException"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := b.run(t, idem.Config{}, tc.name, tc.write)
			if out.Kind != tc.kind {
				t.Fatalf("%v, %v; want %v", out.Kind, out.Err, tc.kind)
			}
			for _, want := range append(tc.want, tc.name) {
				if !strings.Contains(out.Err.Error(), want) {
					t.Errorf("the error %q does not say %q", out.Err, want)
				}
			}
			entry, err := b.Get(t.Context(), tc.name)
			if err != nil || !entry.Released() {
				t.Errorf("the key is %+v, %v; want it released", entry, err)
			}
		})
	}
}

var errNoFunds = errors.New("no funds")

func TestFailedConditionIsTheHandlersError(t *testing.T) {
	b := newBooks(t)
	check := dynamostore.Write{Check: &types.ConditionCheck{
		TableName: &b.table, Key: b.id("account"), ConditionExpression: aws.String("balance >= :amount"),
		ExpressionAttributeValues:           map[string]types.AttributeValue{":amount": &types.AttributeValueMemberN{Value: "5"}},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
	account := b.put("account")
	account.Put.Item["balance"] = &types.AttributeValueMemberN{Value: "3"}
	if out := b.run(t, idem.Config{}, "opening", account); out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	out := b.run(t, idem.Config{}, "plain", b.put("booking"), check)
	var failed *dynamostore.ConditionError
	if out.Kind != idem.Retry || !errors.As(out.Err, &failed) || failed.Table != b.table ||
		failed.Key != `{id: "account"}` || failed.Item["balance"] == nil {
		t.Errorf("%v, %v (%+v)", out.Kind, out.Err, failed)
	}
	check.OrElse = idem.Unavailable(errNoFunds)
	out = b.run(t, idem.Config{}, "marked", b.put("booking"), check)
	if out.Kind != idem.DependencyDown || !errors.Is(out.Err, errNoFunds) ||
		!strings.HasPrefix(out.Err.Error(), "no funds (dynamostore: the condition on item") {
		t.Errorf("%v, %v", out.Kind, out.Err)
	}
}

// cancelled is the error of a transaction whose items conflicted, except for items with another code.
func cancelled(in *dynamodb.TransactWriteItemsInput, code string, at ...int) error {
	reasons := make([]types.CancellationReason, len(in.TransactItems))
	for i := range reasons {
		reasons[i].Code = aws.String("None")
	}
	for _, i := range at {
		reasons[i].Code = &code
	}
	return &types.TransactionCanceledException{CancellationReasons: reasons}
}

// A transaction is retried after a conflict, with the same token and the same items.
func TestConflictIsRetried(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"} {
		for _, at := range []int{0, 1} {
			b := newBooks(t)
			b.client.say = func(n int, in *dynamodb.TransactWriteItemsInput) error {
				switch n {
				case 1:
					return cancelled(in, code, at)
				case 2:
					return &types.TransactionInProgressException{}
				}
				return nil
			}
			if out := b.run(t, idem.Config{}, "k", b.put("a")); out.Kind != idem.Executed {
				t.Errorf("%s: %v, %v", code, out.Kind, out.Err)
			}
			if n := len(b.client.sent); n != 3 ||
				*b.client.sent[0].ClientRequestToken != *b.client.sent[2].ClientRequestToken {
				t.Errorf("%s: %d transactions: want 3 with one token", code, n)
			}
		}
	}
}

func TestLastingConflictsAreErrContended(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	b.client.say = func(_ int, in *dynamodb.TransactWriteItemsInput) error {
		return cancelled(in, "TransactionConflict", 1)
	}
	out := b.run(t, idem.Config{DeadlineMargin: 4 * time.Second}, "k", b.put("a"))
	if out.Kind != idem.CompletionFailed ||
		!strings.Contains(out.Err.Error(), "TransactionCanceledException") ||
		!strings.Contains(out.Err.Error(), b.table) {
		t.Errorf("%v, %v", out.Kind, out.Err)
	}
	if n := len(b.client.sent); n < 2*dynamostore.MaxAttempts {
		t.Errorf("%d transactions; the engine should have gone on", n)
	}
}

// A missing permission counts no attempt, and the error names the actions.
func TestMissingPermissionIsUnavailable(t *testing.T) {
	b := newBooks(t)
	b.client.say = func(int, *dynamodb.TransactWriteItemsInput) error {
		return &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not you"}
	}
	out := b.run(t, idem.Config{}, "k", b.put("a"))
	if out.Kind != idem.DependencyDown || !strings.Contains(out.Err.Error(), "ConditionCheckItem") {
		t.Errorf("%v, %v", out.Kind, out.Err)
	}
}

// batchOf runs keys concurrently, each with an effect, as the lanes of a batch do, and returns the outcomes.
func (b *books) batchOf(t *testing.T, cfg idem.Config, keys int,
	write func(i int) dynamostore.Write) map[idem.Kind]int {
	t.Helper()
	e, err := idem.New(b, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s, err := idem.NewScheduler(e, idem.SchedulerConfig{Concurrency: keys})
	if err != nil {
		t.Fatal(err)
	}
	lanes := make([][]*idem.Item, keys)
	for i := range lanes {
		lanes[i] = []*idem.Item{{Task: idem.Task{Key: fmt.Sprint("key-", i),
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				tx, err := dynamostore.TxFrom(ctx)
				if err != nil {
					return nil, err
				}
				return nil, tx.Enlist(write(i))
			})}}}
	}
	s.Run(t.Context(), lanes)
	kinds := map[idem.Kind]int{}
	for _, lane := range lanes {
		kinds[lane[0].Outcome.Kind]++
	}
	return kinds
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// TestRequestsOfEffects counts the requests of an effect.
func TestRequestsOfEffects(t *testing.T) {
	const keys = 200
	cfg := idem.Config{CommitWindow: keys}
	b := newBooks(t)
	b.wire.count()
	for i, want := range []idem.Kind{idem.Executed, idem.Replayed} {
		if out := b.run(t, cfg, "single", b.put("single")); out.Kind != want {
			t.Fatal(out.Kind, out.Err)
		}
		if n := total(b.wire.count()); n != 2-i {
			t.Errorf("delivery %d: %d requests; want %d", i+1, n, 2-i)
		}
	}
	own := func(i int) dynamostore.Write { return b.put(fmt.Sprint("booking-", i)) }
	for i, want := range []idem.Kind{idem.Executed, idem.Replayed} {
		if kinds := b.batchOf(t, cfg, keys, own); kinds[want] != keys {
			t.Fatalf("delivery %d: %v", i+1, kinds)
		}
		if n := total(b.wire.count()); n >= keys/5 { // groups are smaller on a busy machine
			t.Errorf("delivery %d of %d keys: %d requests; want less than %d", i+1, keys, n, keys/5)
		}
	}
}

// Effects on the same item are not in one transaction and not sent concurrently.
func TestEffectsOnOneItem(t *testing.T) {
	b := newBooks(t)
	add := func(int) dynamostore.Write {
		return dynamostore.Write{Update: &types.Update{
			TableName: &b.table, Key: b.id("account"), UpdateExpression: aws.String("ADD n :one"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
		}}
	}
	const keys = 60
	if kinds := b.batchOf(t, idem.Config{}, keys, add); kinds[idem.Executed] != keys {
		t.Fatal(kinds)
	}
	for i, items := range b.client.items {
		if items != 2 {
			t.Errorf("transaction %d has %d items", i+1, items)
		}
	}
	out, err := b.client.GetItem(t.Context(),
		&dynamodb.GetItemInput{TableName: &b.table, Key: b.id("account")})
	if n, ok := out.Item["n"].(*types.AttributeValueMemberN); err != nil || !ok ||
		n.Value != fmt.Sprint(keys) {
		t.Errorf("the account is %v, %v; want %d", out.Item, err, keys)
	}
}

// A transaction that is cancelled because of one completion is retried without it.
func TestRefusedCompletionLeavesTheTransaction(t *testing.T) {
	b := newBooks(t)
	const keys = 50
	kinds := b.batchOf(t, idem.Config{CommitWindow: keys}, keys, func(i int) dynamostore.Write {
		w := b.put(fmt.Sprint("booking-", i))
		if i%10 == 3 {
			w.Put.ConditionExpression = aws.String("attribute_exists(id)")
		}
		if i%10 == 4 {
			w.Put.ConditionExpression = aws.String("that is none")
		}
		return w
	})
	if kinds[idem.Executed] != keys*8/10 || kinds[idem.Retry] != keys*2/10 {
		t.Errorf("%v", kinds)
	}
}

// There is no transaction without a handler, and none after it.
func TestNoTransactionOutsideAHandler(t *testing.T) {
	if _, err := dynamostore.TxFrom(t.Context()); !idem.IsUnavailable(err) ||
		!strings.Contains(err.Error(), "no transaction") {
		t.Errorf("%v", err)
	}
	b := newBooks(t)
	e, err := idem.New(b, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var kept *dynamostore.Tx
	out := e.Do(t.Context(), idem.Task{Key: "k",
		Handler: idem.HandlerFunc(func(ctx context.Context) (_ []byte, err error) {
			kept, err = dynamostore.TxFrom(ctx)
			return nil, err
		})})
	if out.Kind != idem.Executed {
		t.Fatal(out.Kind, out.Err)
	}
	if err := kept.Enlist(b.put("late")); err == nil || !strings.Contains(err.Error(), "has returned") {
		t.Errorf("%v", err)
	}
}
