//go:build rest

package outbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// outboxEnv is an outbox in DynamoDB, and a Kafka without the topic "credited".
type outboxEnv struct {
	*testing.T
	db       *dynamodb.Client
	cluster  *kfake.Cluster
	endpoint string
	table    string
}

func newOutboxEnv(t *testing.T) *outboxEnv {
	t.Helper()
	endpoint := awstest.LocalStack(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "debited"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	s := &outboxEnv{T: t, db: dynamostore.NewClient(awstest.Config(t, endpoint)), cluster: cluster,
		endpoint: endpoint, table: awstest.Name("outbox")}
	awstest.DeleteTableAtEnd(t, s.db, s.table)
	awstest.DeleteTableAtEnd(t, s.db, s.keys())
	return s
}

func (s *outboxEnv) keys() string { return "keys-" + s.table }

// run runs a verb on the outbox.
func (s *outboxEnv) run(verb string, args ...string) clitest.Result {
	s.Helper()
	r := clitest.Run(s.T, append([]string{verb, "--outbox-table", s.table, "--endpoint-url", s.endpoint,
		"--region", "us-east-1"}, args...)...)
	if strings.Contains(r.Out+r.Err, secret) {
		s.Errorf("%s %v shows what an event holds: %+v", verb, args, r)
	}
	return r
}

func (s *outboxEnv) relay() clitest.Result {
	s.Helper()
	return s.run("relay", "--brokers", strings.Join(s.cluster.ListenAddrs(), ","), "--until-empty",
		"--max-attempts", "1")
}

// publish publishes events by handlers, those of a slice in one transaction.
func (s *outboxEnv) publish(transactions ...[]outbox.Event) {
	s.Helper()
	if err := dynamostore.CreateTable(s.Context(), s.db, s.keys()); err != nil {
		s.Fatal(err)
	}
	store, err := dynamostore.New(s.db, dynamostore.Config{Table: s.keys()})
	if err != nil {
		s.Fatal(err)
	}
	engine, err := idem.New(store, idem.Config{})
	if err != nil {
		s.Fatal(err)
	}
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: s.table})
	if err != nil {
		s.Fatal(err)
	}
	for _, events := range transactions {
		out := engine.Do(s.Context(), idem.Task{Key: events[0].ID,
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				return nil, box.Do(ctx, func(
					ctx context.Context) error {
					return outbox.Publish(ctx, events...)
				})
			})})
		if out.Kind != idem.Executed {
			s.Fatal(out.Kind, out.Err)
		}
	}
}

// park parks an event of an item, as a relay does.
func (s *outboxEnv) park(aggregate, id, event string) {
	s.Helper()
	_, err := s.db.UpdateItem(s.Context(), &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: itemKey(aggregate, id),
		UpdateExpression: aws.String("SET parkedAt = :n, attempts = :n, failure = :f ADD parked :ids"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":n":   &types.AttributeValueMemberN{Value: "1"},
			":f":   &types.AttributeValueMemberS{Value: "too odd"},
			":ids": &types.AttributeValueMemberSS{Value: []string{event}},
		},
	})
	if err != nil {
		s.Fatal(err)
	}
}

func itemKey(aggregate, id string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		dynamooutbox.AttrAggregate: &types.AttributeValueMemberS{Value: aggregate},
		dynamooutbox.AttrID:        &types.AttributeValueMemberS{Value: id},
	}
}

func TestOutboxOfDynamoDB(t *testing.T) {
	t.Parallel()
	s := newOutboxEnv(t)
	if r := s.run("outbox"); r.Code != 1 || !strings.Contains(r.Err, "check --outbox-table") {
		t.Errorf("without the table: %+v; want exit 1 and what to do", r)
	}
	if r := s.run("relay", "--migrate"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	published := outboxEvent(4, []byte("acc-4"))
	published.Topic = "debited"
	s.publish([]outbox.Event{outboxEvent(1, []byte("acc-1")), outboxEvent(2, []byte("acc-1")),
		outboxEvent(3, []byte{0xfe})}, []outbox.Event{published})
	if r := s.relay(); r.Code != 0 || !strings.Contains(r.Err, "1 published, 3 parked") {
		t.Fatalf("%+v", r)
	}
	s.list()
	s.listForeignItem()
	s.requeue()
	s.requeueWhatIsForgotten()
	clitest.CreateTopic(t, s.cluster, "credited")
	if r := s.relay(); r.Code != 0 || !strings.Contains(r.Err, " 0 parked") {
		t.Errorf("%+v; want nothing parked", r)
	}
	for key, n := range map[string]int{"acc-1": 2, "\xfe": 1} {
		if values := clitest.Consume(t, strings.Join(s.cluster.ListenAddrs(), ","), 3)[key]; len(values) < n {
			t.Errorf("%d events of %q have come, want %d", len(values), key, n)
		}
	}
}

func (s *outboxEnv) list() {
	s.Helper()
	r := s.run("outbox")
	if r.Code != 0 || strings.Count(r.Out, "\n") != 3 ||
		!strings.Contains(r.Err, "2 items parked in the table "+s.table+"\n") ||
		!strings.Contains(r.Err, "1 read unit for 4 KB") {
		s.Errorf("%+v; want two items under a headline", r)
	}
	for _, says := range []string{
		`(?m)^ID +EVENTS +TOPIC +KEY +CREATED +PARKED +ATTEMPTS +FAILURE$`,
		`(?m)^` + outboxID(1) + ` +2 +credited +acc-1 +(now|\d+s ago) +(now|\d+s ago) +1 +topic "credited": UNKNOWN_TOPIC_OR_PARTITION`,
		`(?m)^` + outboxID(3) + ` +1 +credited +\\xfe `,
	} {
		if !regexp.MustCompile(says).MatchString(r.Out) {
			s.Errorf("no line like %s in\n%s", says, r.Out)
		}
	}
	if r := s.run("outbox", "--limit", "1"); r.Code != 0 || strings.Count(r.Out, "\n") != 2 ||
		!strings.Contains(r.Err, "there are more") {
		s.Errorf("--limit 1: %+v", r)
	}
	found := make(map[string]map[string]any)
	for line := range strings.Lines(s.run("outbox", "--json").Out) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.Fatalf("%v: %s", err, line)
		}
		id, _ := e["id"].(string)
		found[id] = e
	}
	one := found[outboxID(1)]
	if events, _ := one["events"].([]any); len(found) != 2 || len(events) != 2 ||
		one["aggregate"] != "credited#acc-1" || one["key"] != "acc-1" || one["attempts"] != 1.0 {
		s.Errorf("in JSON: %v", found)
	}
}

// listForeignItem adds an item of another program to the table. It is named, and does not affect other items.
func (s *outboxEnv) listForeignItem() {
	s.Helper()
	s.park("alien", "x\x1b", "x\x1b")
	for _, args := range [][]string{nil, {"--requeue", "x\x1b"}} {
		if r := s.run("outbox", args...); r.Code != 1 ||
			!strings.Contains(r.Err, `not one of an outbox: "alien"`) || strings.Contains(r.Err, "\x1b") {
			s.Errorf("%q: %+v; want exit 1 and the item named", args, r)
		}
	}
	if r := s.run("outbox", "--requeue", outboxID(3)); r.Code != 0 || strings.Contains(r.Err, "alien") ||
		!strings.Contains(r.Err, "1 event requeued") {
		s.Errorf("another one: %+v", r)
	}
	if _, err := s.db.DeleteItem(s.Context(),
		&dynamodb.DeleteItemInput{TableName: &s.table, Key: itemKey("alien", "x\x1b")}); err != nil {
		s.Fatal(err)
	}
}

func (s *outboxEnv) requeue() {
	s.Helper()
	// The ID of the second event selects the item.
	if r := s.run("outbox", "--requeue", strings.ToUpper(outboxID(2)), outboxID(4)); r.Code != 1 ||
		!strings.Contains(r.Err, outboxID(4)+" is not parked") ||
		strings.Contains(strings.ToLower(r.Err), outboxID(2)) ||
		!strings.Contains(r.Err, "2 events requeued in the table "+s.table) {
		s.Errorf("%+v; want one item requeued, and one that is published named", r)
	}
	if r := s.run("outbox"); r.Code != 0 || r.Out != "" || !strings.Contains(r.Err, "0 items") {
		s.Errorf("%+v; want nothing parked", r)
	}
	s.park("credited#acc-1", outboxID(1), outboxID(2))
	for _, want := range []string{"1 event requeued", "0 events requeued"} {
		if r := s.run("outbox", "--requeue", "--all", "--yes"); r.Code != 0 ||
			!strings.Contains(r.Err, want) {
			s.Errorf("all: %+v, want %q", r, want)
		}
	}
}

func (s *outboxEnv) requeueWhatIsForgotten() {
	s.Helper()
	if r := s.run("outbox", "--requeue", "--from", "48h", "--to", "47h", "--yes"); r.Code != 0 ||
		!strings.Contains(r.Err, "0 events requeued") {
		s.Errorf("of another time: %+v", r)
	}
	if r := s.run("outbox", "--requeue", "--from", "1h", "--to", "0s", "--yes"); r.Code != 0 ||
		!strings.Contains(r.Err, "4 events requeued") {
		s.Errorf("%+v; want all", r)
	}
	s.park("credited#acc-1", outboxID(1), outboxID(2))
	if r := s.run("outbox", "--requeue", "--from", "1h", "--to", "0s", "--yes"); r.Code != 1 ||
		!strings.Contains(r.Err, "1 item is of that time parked in part") ||
		!strings.Contains(r.Err, "2 events requeued") {
		s.Errorf("%+v; want two, and the other item named", r)
	}
	s.park("credited#acc-1", outboxID(1), outboxID(1))
	if r := s.run("outbox", "--requeue", "--from", "1h", "--to", "0s", "--yes"); r.Code != 0 ||
		!strings.Contains(r.Err, "2 events requeued") {
		s.Errorf("%+v; want two, and not parked ones", r)
	}
	if r := s.run("outbox", "--requeue", "--all", "--yes"); r.Code != 0 ||
		!strings.Contains(r.Err, "2 events requeued") {
		s.Errorf("%+v; want the two that are parked", r)
	}
}

// The page shows what idemsk outbox shows, and requeues chosen events or all.
func TestConsoleOfAnOutboxInDynamoDB(t *testing.T) {
	t.Parallel()
	s := newOutboxEnv(t)
	if r := s.run("relay", "--migrate"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	s.publish([]outbox.Event{outboxEvent(1, []byte("acc-1")), outboxEvent(2, []byte("acc-1")),
		outboxEvent(3, []byte("acc-3"))})
	if r := s.relay(); r.Code != 0 || !strings.Contains(r.Err, "3 parked") {
		t.Fatalf("%+v", r)
	}
	s.park("alien", "x", "x")
	p := clitest.OpenConsole(t, "--endpoint-url", s.endpoint, "--region", "us-east-1", "--table", s.keys(),
		"--outbox-table", s.table, "--allow-changes")
	parked := func() []console.Parked {
		t.Helper()
		got := clitest.Answer[console.ParkedEvents](p, "GET", "api/parked", nil)
		if len(got.Problems) != 1 || !strings.Contains(got.Problems[0], `"alien"`) || got.More {
			t.Errorf("%+v; want the foreign item named", got)
		}
		return got.Events
	}
	events := parked()
	chosen := slices.IndexFunc(events, func(e console.Parked) bool { return e.ID == outboxID(1) })
	if len(events) != 2 || chosen < 0 || events[chosen].Events != 2 || events[chosen].Key != "acc-1" ||
		events[chosen].Failure == "" || events[chosen].Attempts != 1 {
		t.Fatalf("%+v; want two items", events)
	}
	requeue := func(chosen ...console.Parked) {
		t.Helper()
		if status, text := p.Ask(http.MethodPost, "api/actions",
			console.Change{Action: console.ChangeRequeue, Events: chosen}); len(chosen) > 0 &&
			status != http.StatusOK {
			t.Errorf("%d %s", status, text)
		}
	}
	requeue(events[chosen])
	if rest := parked(); len(rest) != 1 || rest[0].ID != outboxID(3) {
		t.Errorf("%+v; want the other item", rest)
	}
	requeue()
	if rest := parked(); len(rest) != 0 {
		t.Errorf("%+v; want none", rest)
	}
}
