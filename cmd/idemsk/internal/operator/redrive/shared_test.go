package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

const otherCluster = "arn:aws:kafka:eu-central-1:123456789012:cluster/other/1"

// consumer is a function on idemsk in this process, whose dead letters go to a FIFO queue. It implements
// redrive.Lambda.
type consumer struct {
	*msk.Consumer
	calls int
	fails error
}

// mode is how a function protects its records.
type mode string

const (
	byKey       mode = "claims by key"
	unprotected mode = "no protection" // its store is down; its letters have no token, and its records no key
)

// downStore does not answer.
type downStore struct{ store.Store }

// Claim implements store.Store.
func (downStore) Claim(_ context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	return slices.Repeat([]store.ClaimResult{{Err: errors.New("no answer")}}, len(reqs))
}

// key returns the key of a record in a mode.
func (m mode) key() string {
	if m == unprotected {
		return ""
	}
	return "k"
}

// newConsumer returns the function of a name.
func newConsumer(t *testing.T, name string, m mode, client *awssqs.Client, queue string) *consumer {
	t.Helper()
	letters, err := sqs.New(client, sqs.Config{URL: queue})
	if err != nil {
		t.Fatal(err)
	}
	var s store.Store = memstore.New(memstore.Config{})
	if m == unprotected {
		s = downStore{}
	}
	engine, err := idem.New(s, idem.Config{FailOpen: true})
	if err != nil {
		t.Fatal(err)
	}
	c := &consumer{fails: idem.Permanent(errors.New("not fixed yet"))}
	handler := func(context.Context, msk.Record) ([]byte, error) { c.calls++; return nil, c.fails }
	c.Consumer, err = msk.New(engine, msk.HandlerFunc(handler), eventsource.Config{
		Records: kafka.Config{
			Namespace: name, MissingKey: kafka.Process, DeadLetters: letters, Function: name,
			Logger: slog.New(slog.DiscardHandler),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Invoke implements redrive.Lambda.
func (c *consumer) Invoke(ctx context.Context, in *lambda.InvokeInput,
	_ ...func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	out, err := c.Consumer.Invoke(ctx, in.Payload)
	if err != nil {
		return nil, err
	}
	return &lambda.InvokeOutput{Payload: out}, nil
}

// deliver hands the record at payments-0@7 of a cluster to the function. An empty key is none.
func (c *consumer) deliver(t *testing.T, cluster, key string) {
	t.Helper()
	headers := ""
	if key != "" {
		headers = fmt.Sprintf(`,"headers":[{"idempotency-key":[%d]}]`, key[0])
	}
	_, err := c.Invoke(t.Context(), &lambda.InvokeInput{Payload: fmt.Appendf(nil,
		`{"eventSource":"aws:kafka","eventSourceArn":%q,"records":{"payments-0":[{"offset":7,"timestamp":1,"timestampType":"CREATE_TIME","value":"e30="%s}]}}`,
		cluster, headers)})
	if err != nil {
		t.Fatal(err)
	}
}

func lettersIn(t *testing.T, client *awssqs.Client, url string) (letters []kafka.DeadLetter) {
	t.Helper()
	for _, body := range left(t, client, url) {
		l, err := kafka.ParseDeadLetter([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, l)
	}
	return letters
}

// A record that fails again when it is redriven has a dead letter in a FIFO queue again. It is executed when
// its cause is fixed.
func TestALetterInAFIFOQueueIsFollowedByTheNext(t *testing.T) {
	t.Parallel()
	for _, m := range []mode{byKey, unprotected} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			client, url := awstest.NewQueue(t, "letters.fifo")
			c := newConsumer(t, "pay", m, client, url)
			c.deliver(t, otherCluster, m.key())
			for calls := 1; calls <= 3; calls++ {
				runAll(t, redrive.Options{Source: redrive.Queue(client, url, time.Minute),
					Destination: redrive.Function(c, "pay"), Limit: 1})
				if c.calls != calls+1 {
					t.Fatalf("the handler was called %d times; want %d", c.calls, calls+1)
				}
			}
			c.fails = nil
			results, _ := runAll(t, redrive.Options{Source: redrive.Queue(client, url, time.Minute),
				Destination: redrive.Function(c, "pay")})
			if len(results) != 1 || !strings.Contains(results[0].Where, "executed") ||
				results[0].Cluster != otherCluster {
				t.Errorf("when its cause is fixed: %+v", results)
			}
			if rest := lettersIn(t, client, url); len(rest) != 0 {
				t.Errorf("%d letters are left", len(rest))
			}
		})
	}
}

// Two functions on one topic share a queue: each gets its own letters back, and takes none of the other's
// away.
func TestFunctionsThatShareAQueue(t *testing.T) {
	t.Parallel()
	for _, m := range []mode{byKey, unprotected} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			client, url := awstest.NewQueue(t, "letters.fifo")
			functions := map[string]*consumer{}
			for _, f := range []string{"pay", "audit"} {
				functions[f] = newConsumer(t, f, m, client, url)
				functions[f].deliver(t, otherCluster, m.key())
				functions[f].fails = nil
			}
			for _, f := range []string{"audit", "pay"} {
				results, passed := runAll(t, redrive.Options{
					Source:      redrive.Queue(client, url, time.Minute),
					Destination: redrive.Function(functions[f], f), Function: f,
				})
				if len(results) != 1 || results[0].Outcome != redrive.Redriven || results[0].Function != f ||
					functions[f].calls != 2 {
					t.Errorf("%s: %+v, passed over %+v, %d calls", f, results, passed, functions[f].calls)
				}
			}
			if rest := lettersIn(t, client, url); len(rest) != 0 {
				t.Errorf("%d letters are left", len(rest))
			}
		})
	}
}

// Two letters with one place and one version are of two records if their functions or clusters differ. A run
// without a choice of a cluster brings back the letters of the first one only.
func TestClustersThatShareAQueue(t *testing.T) {
	t.Parallel()
	of := func(function, cluster string) kafka.DeadLetter {
		l := letter(1)
		l.Function, l.Cluster = function, cluster
		return l
	}
	all := []kafka.DeadLetter{of("pay", "one"), of("audit", "one"), of("pay", "two"), of("pay", "one"),
		of("", "")}
	for name, test := range map[string]struct {
		options  redrive.Options
		outcomes string
		passed   redrive.Passed
	}{
		"the first's": {redrive.Options{}, "a redriven, b redriven, d duplicate, e redriven",
			redrive.Passed{Cluster: 1}},
		"chosen": {redrive.Options{Cluster: "two"}, "c redriven, e redriven", redrive.Passed{Cluster: 3}},
		"a function's": {redrive.Options{Function: "audit"}, "b redriven, e redriven",
			redrive.Passed{Function: 3}},
		"no one's": {redrive.Options{Function: "other", Cluster: "two"}, "e redriven",
			redrive.Passed{Function: 4}},
	} {
		src := &listSource{bodies: bodies(t, all...)}
		test.options.Source, test.options.Destination = src, &listDestination{}
		results, passed := runAll(t, test.options)
		if got := outcomes(results); got != test.outcomes || passed != test.passed {
			t.Errorf("%s: %s, passed over %+v; want %s, %+v", name, got, passed, test.outcomes, test.passed)
		}
		taken := len(results)
		if len(src.done) != taken || slices.Contains(src.done,
			"c") != (test.options.Cluster == "two" && test.options.Function == "") {
			t.Errorf("%s: taken out: %v", name, src.done)
		}
	}
}
