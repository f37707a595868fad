package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/lambda"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
)

// The topics, the number of accounts, and the batch size of the consumers.
const (
	payments  = "payments"
	credited  = "credited"
	accounts  = 40
	batchSize = 50
)

// event is the event of a booked payment.
func event(c *tally.Credit) (outbox.Event, error) {
	value, err := json.Marshal(c)
	return outbox.Event{Topic: credited, Key: []byte(c.Account), Value: value}, err
}

// producePayments produces payments and returns them, in order for each account.
func producePayments(t *testing.T, seed tally.Seed, brokers []string, n int) map[string][]tally.Credit {
	t.Helper()
	random := seed.Rand("payments")
	made := make(map[string][]tally.Credit)
	var records []*kgo.Record
	for i := range n {
		c := tally.Credit{
			PaymentID: fmt.Sprint("p-", i), Account: fmt.Sprint("acc-", random.IntN(accounts)),
			Amount: random.Int64N(1000) + 1, Currency: "EUR",
		}
		made[c.Account] = append(made[c.Account], c)
		value, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Topic: payments, Key: []byte(c.Account), Value: value})
	}
	if err := tally.NewClient(t, brokers).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return made
}

func createTopic(t *testing.T, brokers []string, name string, partitions int32) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), tally.NewClient(t, brokers))
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("creating topic %s: %v, %+v", name, err, resp)
	}
}

func paymentKey(t *testing.T) kafka.KeyFunc {
	t.Helper()
	key, err := kafka.JSONKey("$.paymentId")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// function returns the second consumer as Lambda runs it, without any variable set: the outbox's events must
// fit its defaults.
func function(t *testing.T, handler msk.HandlerFunc) *lambda.Function {
	t.Helper()
	build := func(context.Context, *lambda.Base) (msk.Handler, error) { return handler, nil }
	fn, err := lambda.New(t.Context(), build, app.NewVars(asLambda), io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fn.Close)
	return fn
}

// wantCounted checks that the second consumer's books and the ledger have the produced payments.
func wantCounted(t *testing.T, books *tally.Books, made map[string][]tally.Credit,
	balances map[string]int64) {
	t.Helper()
	books.WantInOrder(t, made)
	books.WantBalances(t, balances)
	if want := tally.Sums(made); !maps.Equal(balances, want) {
		t.Errorf("the ledger has %v, want %v", balances, want)
	}
}

// task runs concurrently with a test.
type task struct {
	done chan struct{} // closed at its end
	good bool
}

// beside runs f concurrently. The test ends after f, which returns false if it fails.
func beside(t *testing.T, f func() bool) *task {
	t.Helper()
	x := &task{done: make(chan struct{})}
	go func() {
		defer close(x.done)
		x.good = f()
	}()
	t.Cleanup(func() { <-x.done })
	return x
}

// wait waits for the end of the task and stops the test if it failed.
func (x *task) wait(t *testing.T) {
	t.Helper()
	if <-x.done; !x.good {
		t.FailNow()
	}
}

// asLambda is the environment of a function without any variable of its own.
func asLambda(name string) (string, bool) {
	if name == "AWS_LAMBDA_FUNCTION_NAME" {
		return "credits", true
	}
	return "", false
}
