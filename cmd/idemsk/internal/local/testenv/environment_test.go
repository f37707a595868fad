package testenv_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func names() testenv.Names {
	return testenv.Names{Keys: "keys-1", Ledger: "ledger-1", Audit: "audit-1"}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// startSQS returns the URL of an SQS in this process.
func startSQS(t *testing.T) string {
	t.Helper()
	return testkit.Serve(t, sqsfake.New, sqsfake.Config{}).URL()
}

func queues(t *testing.T) *sqs.Client {
	t.Helper()
	return sqs.NewFromConfig(awstest.Config(t, startSQS(t)))
}

func create(t *testing.T, e *testenv.Environment) {
	t.Helper()
	if err := e.Create(t.Context(), "letters"); err != nil {
		t.Fatal(err)
	}
}

// check uses an environment as a function does, and then reads and removes it.
func check(t *testing.T, e *testenv.Environment, use func(ctx context.Context) store.Store) *testenv.State {
	t.Helper()
	defer e.Close()
	if err := e.Check(t.Context()); err != nil {
		t.Error(err)
	}
	create(t, e)
	st := use(t.Context())
	res := st.Claim(t.Context(), []store.ClaimRequest{{Key: "p#1", Owner: "o", Lease: time.Minute,
		Retention: time.Hour}})
	if res[0].Err != nil {
		t.Fatal(res[0].Err)
	}
	state, err := e.Read(t.Context())
	if err != nil || len(state.Balances) != 1 || state.Balances["a/EUR"] != 7 || len(state.Statuses) != 1 ||
		state.Statuses["p#1"] != store.StatusStarted {
		t.Fatalf("read %+v, %v; want a balance of 7, and a key that is STARTED", state, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if err := e.Remove(ended); err != nil {
			t.Error(err)
		}
	}
	create(t, e)
	if left, err := e.Read(t.Context()); err != nil ||
		len(left.Balances)+len(left.Statuses)+len(left.Executions) != 0 {
		t.Errorf("after Remove: %+v, %v; want nothing", left, err)
	}
	if err := e.Remove(ended); err != nil {
		t.Error(err)
	}
	return state
}

func TestDynamoDB(t *testing.T) {
	t.Parallel()
	client := dynamodb.NewFromConfig(awstest.Config(t,
		testkit.Serve(t, dynamofake.New, dynamofake.Config{}).URL()))
	state := check(t, must(testenv.InDynamoDB(client, names(), queues(t))),
		func(ctx context.Context) store.Store {
			text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
			number := func(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
			for table, item := range map[string]map[string]types.AttributeValue{
				"ledger-1": {"account": text("a/EUR"), "balance": number("7")},
				"audit-1": {
					"execution": text("x"), "idempotencyKey": text("p#1"), "requestId": text("r"),
					"token": number("3"), "attempt": number("2"),
					"account": text("a/EUR"), "amount": number("7"),
				},
			} {
				must(client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item}))
			}
			return must(dynamostore.New(client, dynamostore.Config{Table: names().Keys}))
		})
	want := testenv.Execution{Key: "p#1", Executor: "r", Token: 3, Attempt: 2, Account: "a/EUR", Amount: 7}
	if len(state.Executions) != 1 || state.Executions[0] != want {
		t.Errorf("the audit has %+v, want %+v", state.Executions, want)
	}
}

func TestErrorsContainNoPassword(t *testing.T) {
	t.Parallel()
	client := queues(t)
	for url, table := range map[string]string{
		"postgres://u:hush@h:port/d": "k", "redis://u:hush@h:port": "k", "postgres://u:hush@h/d": "a.b.c",
		"redis://u:hush@h": "a{b}", "mysql://u:hush@h": "k",
	} {
		if _, err := testenv.Open(url, testenv.Names{Keys: table, Ledger: "l"}, client); err == nil ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: error %v; want one without the password", table, err)
		}
	}
	e := must(testenv.Open("postgres://u:hush@127.0.0.1:1/d", names(), client))
	defer e.Close()
	if err := e.Create(t.Context(), "letters"); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("error %v; want one without the password", err)
	}
}
