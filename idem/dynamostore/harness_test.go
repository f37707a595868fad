package dynamostore_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake starts an in-process DynamoDB.
func fake(tb testing.TB) *dynamofake.Server {
	tb.Helper()
	return fakeWith(tb, nil)
}

// fakeWith starts an in-process DynamoDB with injected faults.
func fakeWith(tb testing.TB, fault func(op string, body []byte) dynamofake.Fault) *dynamofake.Server {
	tb.Helper()
	return testkit.Serve(tb, dynamofake.New, dynamofake.Config{Fault: fault})
}

// wire is a client's transport to DynamoDB. It can lose replies and call a function between two requests.
type wire struct {
	base *http.Transport

	mu         sync.Mutex
	loseReply  bool
	beforeTake func()
	requests   map[string]int
}

func newWire(tb testing.TB) *wire {
	w := &wire{base: &http.Transport{MaxIdleConnsPerHost: 64}, requests: make(map[string]int)}
	tb.Cleanup(w.base.CloseIdleConnections)
	return w
}

var errReplyLost = errors.New("test: the reply was lost")

// Do implements the SDK's HTTPClient.
func (w *wire) Do(req *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	w.mu.Lock()
	w.requests[op]++
	var meanwhile func()
	if op == "UpdateItem" || strings.Contains(statements(req), `"UPDATE `) {
		meanwhile, w.beforeTake = w.beforeTake, nil
	}
	w.mu.Unlock()
	if meanwhile != nil {
		meanwhile()
	}
	resp, err := w.base.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if w.loses(op, body) {
		return nil, errReplyLost
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// statements returns the statements of a batch's body, which can still be read afterwards.
func statements(req *http.Request) string {
	if !strings.HasSuffix(req.Header.Get("X-Amz-Target"), ".BatchExecuteStatement") {
		return ""
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return ""
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}

// loses reports whether the reply to this write is lost. Only a write that took effect counts.
func (w *wire) loses(op string, reply []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch op {
	case "PutItem", "UpdateItem", "TransactWriteItems":
	case "BatchExecuteStatement":
		if bytes.Contains(reply, []byte(`"Error"`)) {
			return false
		}
	default:
		return false
	}
	was := w.loseReply
	w.loseReply = false
	return was
}

func (w *wire) arm(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// count returns the requests of each operation since the last call.
func (w *wire) count() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.requests
	w.requests = make(map[string]int)
	return n
}

func client(w *wire, endpoint string) *dynamodb.Client {
	return dynamostore.NewClient(aws.Config{
		Region:      "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:  w,
	}, func(o *dynamodb.Options) { o.BaseEndpoint = &endpoint })
}

func newStore(tb testing.TB, c *dynamodb.Client, cfg dynamostore.Config) *dynamostore.Store {
	tb.Helper()
	cfg.Table = "idemsk-" + rand.Text()
	if err := dynamostore.CreateTable(tb.Context(), c, cfg.Table); err != nil {
		tb.Fatal(err)
	}
	awstest.DeleteTableAtEnd(tb, c, cfg.Table)
	s, err := dynamostore.New(c, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// harness returns a store on a new table. The store sends a request for each element, or batches, even for
// single elements.
func harness(tb testing.TB, endpoint string, batched bool) (storetest.Harness, *wire) {
	tb.Helper()
	w := newWire(tb)
	c := client(w, endpoint)
	clock := storetest.NewClock()
	cfg := dynamostore.Config{Clock: clock.Now}
	st := newStore(tb, c, cfg)
	if batched {
		st.BatchSingles()
	} else {
		st.NoBatches()
	}
	table := st.Table()
	return storetest.Harness{
		Store: st, Now: clock.Now, Advance: clock.Advance, Skew: st.MaxClockSkew(),
		LoseReply: func() { w.arm(func() { w.loseReply = true }) },
		Interpose: func(f func()) { w.arm(func() { w.beforeTake = f }) },
		Raw:       func(tb testing.TB, key string) []byte { return raw(tb, c, table, key) },
		Sweep:     func(tb testing.TB) { sweep(tb, c, table, clock.Now().Unix()) },
		Effects:   counters(tb, c, st),
	}, w
}

// counters are items of a separate table.
func counters(tb testing.TB, c *dynamodb.Client, st *dynamostore.Store) *storetest.Effects {
	tb.Helper()
	const key, count = "id", "count"
	table := "effects-" + rand.Text()
	awstest.CreateTable(tb, c, table, key)
	id := func(name string) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{key: &types.AttributeValueMemberS{Value: name}}
	}
	enlist := func(tb testing.TB, e store.Effect, w dynamostore.Write) {
		tx, ok := e.(*dynamostore.Tx)
		if !ok {
			tb.Fatalf("%T", e)
		}
		if err := tx.Enlist(w); err != nil {
			tb.Fatal(err)
		}
	}
	return &storetest.Effects{
		Transactor: st,
		Count: func(tb testing.TB, e store.Effect, name string) {
			enlist(tb, e, dynamostore.Write{Update: &types.Update{
				TableName: &table, Key: id(name), UpdateExpression: aws.String("ADD #c :one"),
				ExpressionAttributeNames:  map[string]string{"#c": count},
				ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
			}})
		},
		Refuse: func(tb testing.TB, e store.Effect) {
			enlist(tb, e, dynamostore.Write{Check: &types.ConditionCheck{
				TableName: &table, Key: id("absent"), ConditionExpression: aws.String("attribute_exists(id)"),
			}})
		},
		Read: func(tb testing.TB, name string) int {
			out, err := c.GetItem(tb.Context(),
				&dynamodb.GetItemInput{TableName: &table, Key: id(name), ConsistentRead: aws.Bool(true)})
			if err != nil {
				tb.Fatal(err)
			}
			n, ok := out.Item[count].(*types.AttributeValueMemberN)
			if !ok {
				return 0
			}
			read, err := strconv.Atoi(n.Value)
			if err != nil {
				tb.Fatal(err)
			}
			return read
		},
	}
}

func raw(tb testing.TB, c *dynamodb.Client, table, key string) []byte {
	tb.Helper()
	out, err := c.GetItem(tb.Context(), &dynamodb.GetItemInput{
		TableName: &table, ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{dynamostore.AttrKey: &types.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if out.Item == nil {
		return nil
	}
	text, err := json.Marshal(out.Item) // maps are encoded in the order of their keys
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// sweep deletes expired items by the test's clock, as TTL does.
func sweep(tb testing.TB, c *dynamodb.Client, table string, now int64) {
	tb.Helper()
	out, err := c.Scan(tb.Context(), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	if err != nil {
		tb.Fatal(err)
	}
	for _, item := range out.Items {
		n, ok := item[dynamostore.AttrExpiry].(*types.AttributeValueMemberN)
		if !ok {
			tb.Fatalf("an item without %s: %v", dynamostore.AttrExpiry, item)
		}
		if expiry, err := strconv.ParseInt(n.Value, 10, 64); err != nil || expiry > now {
			continue
		}
		key := map[string]types.AttributeValue{dynamostore.AttrKey: item[dynamostore.AttrKey]}
		if _, err := c.DeleteItem(tb.Context(),
			&dynamodb.DeleteItemInput{TableName: &table, Key: key}); err != nil {
			tb.Fatal(err)
		}
	}
}

// onBothPaths runs a test with and without batches, at the same time.
func onBothPaths(t *testing.T, test func(t *testing.T, batched bool)) {
	t.Helper()
	for name, batched := range map[string]bool{"plain": false, "batched": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, batched)
		})
	}
}

func ownerName(n int) string { return fmt.Sprint("owner-", n) }
