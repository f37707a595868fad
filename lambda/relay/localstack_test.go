//go:build rest

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// stack is the function on the stream of an outbox in LocalStack, and a store beside it.
type stack struct {
	*testing.T
	db     *dynamodb.Client
	fn     *lambda.Client
	name   string
	outbox *dynamooutbox.Outbox
	engine *idem.Engine
}

func deploy(t *testing.T, c *kfake.Cluster) *stack {
	t.Helper()
	cfg := awstest.Config(t, awstest.LocalStack(t))
	s := &stack{T: t, db: dynamostore.NewClient(cfg), fn: lambda.NewFromConfig(cfg),
		name: awstest.Name("relay")}
	s.createTables()
	s.createFunction(map[string]string{
		"IDEMSK_OUTBOX_TABLE": s.name, "IDEMSK_KAFKA_BROKERS": c.ListenAddrs()[0],
		"IDEMSK_KAFKA_TIMEOUT": "1s",
	})
	s.createEventSource()
	return s
}

func (s *stack) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stack) createTables() {
	keys := s.name + "-keys"
	var err error
	s.outbox, err = dynamooutbox.New(dynamooutbox.Config{Table: s.name})
	s.must(err)
	s.must(s.outbox.CreateTable(s.Context(), s.db))
	awstest.DeleteTableAtEnd(s, s.db, s.name)
	s.must(dynamostore.CreateTable(s.Context(), s.db, keys))
	awstest.DeleteTableAtEnd(s, s.db, keys)
	store, err := dynamostore.New(s.db, dynamostore.Config{Table: keys})
	s.must(err)
	s.engine, err = idem.New(store, idem.Config{})
	s.must(err)
}

func (s *stack) createFunction(env map[string]string) {
	s.Helper()
	_, err := s.fn.CreateFunction(s.Context(), &lambda.CreateFunctionInput{
		FunctionName: &s.name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Timeout:     aws.Int32(30),
		Role:        aws.String("arn:aws:iam::000000000000:role/idemsk"),
		Code:        &types.FunctionCode{ZipFile: s.zip()},
		Environment: &types.Environment{Variables: env},
	})
	s.must(err)
	awstest.AtEnd(s, func(ctx context.Context) error {
		_, err := s.fn.DeleteFunction(ctx, &lambda.DeleteFunctionInput{FunctionName: &s.name})
		return err
	})
	s.must(lambda.NewFunctionActiveV2Waiter(s.fn).Wait(s.Context(),
		&lambda.GetFunctionInput{FunctionName: &s.name}, time.Minute))
}

// zip builds the function and packs it.
func (s *stack) zip() []byte {
	s.Helper()
	bootstrap := filepath.Join(s.TempDir(), "bootstrap")
	build := exec.CommandContext(s.Context(), "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags",
		"-s -w", "-o", bootstrap, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return awstest.Package(s, bootstrap)
}

// createEventSource maps the stream as the deployed function's is.
func (s *stack) createEventSource() {
	s.Helper()
	table, err := s.db.DescribeTable(s.Context(), &dynamodb.DescribeTableInput{TableName: &s.name})
	s.must(err)
	out, err := s.fn.CreateEventSourceMapping(s.Context(), &lambda.CreateEventSourceMappingInput{
		FunctionName: &s.name, EventSourceArn: table.Table.LatestStreamArn,
		StartingPosition: types.EventSourcePositionTrimHorizon,
		BatchSize:        aws.Int32(20), ParallelizationFactor: aws.Int32(1),
		BisectBatchOnFunctionError: aws.Bool(true),
		FunctionResponseTypes:      []types.FunctionResponseType{types.FunctionResponseTypeReportBatchItemFailures},
		FilterCriteria: &types.FilterCriteria{Filters: []types.Filter{
			{Pattern: aws.String(`{"eventName":["INSERT"]}`)},
			{Pattern: aws.String(`{"eventName":["MODIFY"],"dynamodb":{"NewImage":{"requeuedAt":{"N":[{"exists":true}]}}}}`)},
		}},
	})
	s.must(err)
	awstest.AtEnd(s, func(ctx context.Context) error {
		_, err := s.fn.DeleteEventSourceMapping(ctx, &lambda.DeleteEventSourceMappingInput{UUID: out.UUID})
		return err
	})
}

// publish handles a message that publishes events.
func (s *stack) publish(key string, events ...outbox.Event) {
	s.Helper()
	out := s.engine.Do(s.Context(), idem.Task{Key: key,
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			return nil, s.outbox.Do(ctx, func(
				ctx context.Context) error {
				return outbox.Publish(ctx, events...)
			})
		})})
	if out.Kind != idem.Executed {
		s.Fatal(out.Kind, out.Err)
	}
}

// parked waits until the given number of items is parked.
func (s *stack) parked(n int) (items []dynamooutbox.Item) {
	s.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); <-tick.C {
		items = nil
		for it, err := range s.outbox.List(s.Context(), s.db, dynamooutbox.ListQuery{Parked: true}) {
			s.must(err)
			items = append(items, it)
		}
		if len(items) == n {
			return items
		}
	}
	s.Fatalf("%d items are parked; want %d", len(items), n)
	return nil
}

var errBroken = errors.New("the test breaks this connection")

// From the handler's transaction over the stream and the real function to Kafka: all events arrive, those of
// a key in order, while the broker, after the first, breaks every connection that an event comes by for
// longer than a delivery tries; a rejected event is parked, does not block others, and arrives when its topic
// has been made and it was requeued.
func TestStreamToKafkaOnLocalStack(t *testing.T) {
	c := newCluster(t)
	const refusals = 8
	var produced atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if n := produced.Add(1); n > 1 && n <= 1+refusals {
			return nil, errBroken, true
		}
		return nil, nil, false
	})
	s := deploy(t, c)
	const payments, accounts = 30, 3
	for n := range payments {
		account := fmt.Appendf(nil, "acc-%d", n%accounts)
		s.publish(fmt.Sprint("pay-", n),
			outbox.Event{Topic: "t", Key: account, Value: fmt.Appendf(nil, "%d", 2*n)},
			outbox.Event{Topic: "t", Key: account, Value: fmt.Appendf(nil, "%d", 2*n+1)})
		if n == payments/2 {
			s.publish("poison", outbox.Event{Topic: "later", Key: []byte("acc-0"), Value: []byte("poison")})
		}
	}
	wantOrder(t, c, 2*payments)
	if n := produced.Load(); n <= 1+refusals {
		t.Errorf("the broker was asked %d times; want more than the %d that it refused", n, refusals)
	}

	it := s.parked(1)[0]
	if len(it.Parked) != 1 || string(it.Events[0].Value) != "poison" ||
		!strings.Contains(it.Failure, "later") || it.Attempts != 5 {
		t.Errorf("parked: %+v", it)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("later"))
	s.must(err)
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "later", 1, 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = append(create.Topics, topic)
	_, err = create.RequestWith(t.Context(), client)
	s.must(err)
	_, err = s.outbox.Requeue(t.Context(), s.db, it.Aggregate, it.ID)
	s.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	records := client.PollFetches(ctx).Records()
	if len(records) != 1 || string(records[0].Value) != "poison" ||
		string(records[0].Headers[0].Value) != it.Events[0].ID {
		t.Errorf("after the requeue %d records have come: %+v", len(records), records)
	}
}

// wantOrder reads until n different events have come, and wants those of a key in order where each comes for
// the first time.
func wantOrder(t *testing.T, c *kfake.Cluster, n int) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, last, repeats := make(map[string]bool), make(map[string]int), 0
	for len(seen) < n && ctx.Err() == nil {
		for _, r := range client.PollFetches(ctx).Records() {
			id, value := string(r.Headers[0].Value), atoi(t, string(r.Value))
			if seen[id] {
				repeats++
				continue
			}
			seen[id] = true
			if before, ok := last[string(r.Key)]; ok && value < before {
				t.Errorf("of key %s, %d comes behind %d", r.Key, value, before)
			}
			last[string(r.Key)] = value
		}
	}
	if len(seen) != n {
		t.Fatalf("%d events have come; want %d", len(seen), n)
	}
	t.Logf("%d events have come, %d of them again", n, repeats)
}
