package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cloud is a fake of AWS: DynamoDB's BatchGetItem, which finds no parked item, UpdateItem, and Secrets
// Manager with one secret.
type cloud struct {
	url string

	mu      sync.Mutex
	secret  string
	down    bool
	full    bool     // nothing can be written
	updates []string // IDs of the parked items
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	a := &cloud{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

// ServeHTTP implements http.Handler.
func (a *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	answer := func(status int, text string) {
		// the SDK warns without
		w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 10))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	switch target := r.Header.Get("X-Amz-Target"); {
	case target == "DynamoDB_20120810.BatchGetItem" && !a.down:
		answer(http.StatusOK, `{}`)
	case a.down, a.full:
		answer(http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#AccessDeniedException","message":"no"}`)
	case target == "DynamoDB_20120810.UpdateItem":
		var in struct{ Key map[string]struct{ S string } }
		_ = json.Unmarshal(body, &in)
		a.updates = append(a.updates, in.Key[dynamooutbox.AttrID].S)
		answer(http.StatusOK, `{}`)
	case target == "secretsmanager.GetSecretValue":
		text, _ := json.Marshal(map[string]string{"SecretString": a.secret})
		answer(http.StatusOK, string(text))
	default:
		answer(http.StatusNotImplemented, `{}`)
	}
}

func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	loopback := func(network, _ string) (net.Listener, error) {
		return new(net.ListenConfig).Listen(context.Background(), network, "127.0.0.1:0")
	}
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "t"),
		kfake.ListenFn(loopback)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fixture is the function, with what it wrote.
type fixture struct {
	*testing.T
	fn           *function
	logs, metric bytes.Buffer
}

// start wires the function as its process does, with these variables besides those that it always needs.
func start(t *testing.T, a *cloud, c *kfake.Cluster, env map[string]string) *fixture {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": a.url, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id",
		"AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	vars := map[string]string{
		"IDEMSK_KAFKA_BROKERS": c.ListenAddrs()[0], "AWS_LAMBDA_FUNCTION_NAME": "relay",
		"IDEMSK_KAFKA_TIMEOUT": "1s",
	}
	for name, value := range env {
		vars[name] = value
	}
	s := &fixture{T: t}
	var err error
	s.fn, err = newFunction(t.Context(), app.NewVars(lookup(vars)), &s.metric, &s.logs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.fn.producer.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return s
}

func lookup(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) { s, ok := vars[name]; return s, ok }
}

// deliver hands records to the function, as JSON, and returns the sequence numbers that it reports.
func (s *fixture) deliver(records ...string) (reported []string) {
	s.Helper()
	reported, err := s.try(s.Context(), records...)
	if err != nil {
		s.Fatal(err)
	}
	return reported
}

func (s *fixture) try(ctx context.Context, records ...string) (reported []string, err error) {
	s.Helper()
	text := `{"Records":[`
	for i, r := range records {
		if i > 0 {
			text += ","
		}
		text += r
	}
	var batch events.DynamoDBEvent
	if err := json.Unmarshal([]byte(text+"]}"), &batch); err != nil {
		s.Fatal(err)
	}
	response, err := s.fn.handle(ctx, batch)
	for _, failure := range response.BatchItemFailures {
		reported = append(reported, failure.ItemIdentifier)
	}
	return reported, err
}

// insert is a record of a new item, whose one event has the value value.
func insert(number int, topic, key, value string) string {
	return change("INSERT", number, image(number, topic, key, value))
}

func change(name string, number int, image string) string {
	return fmt.Sprintf(`{"eventID":"%d","eventName":%q,"eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"us-east-1",
		"dynamodb":{"ApproximateCreationDateTime":1.7954e9,"Keys":{"aggregate":{"S":"a"},"id":{"S":"item-%d"}},%s
		"SequenceNumber":"%d","SizeBytes":1,"StreamViewType":"NEW_IMAGE"},"eventSourceARN":"arn:aws:dynamodb:us-east-1:000000000000:table/o/stream/1"}`,
		number, name, number, image, number)
}

func image(number int, topic, key, value string) string {
	return fmt.Sprintf(`"NewImage":{"aggregate":{"S":"%s#%s"},"id":{"S":"item-%d"},"topic":{"S":%q},"key":{"B":%s},"createdAt":{"N":"%d"},
		"expiryTimestamp":{"N":"1"},"events":{"L":[{"M":{"id":{"S":"event-%d"},"value":{"B":%s},
		"headers":{"L":[{"M":{"key":{"S":"kind"},"value":{"B":%s}}},{"M":{"key":{"S":"null"}}}]}}}]}},`,
		topic, key, number, topic, base64(key), time.Now().Add(-time.Minute).UnixMilli(), number,
		base64(value), base64("v1"))
}

func base64(s string) string {
	b, _ := json.Marshal([]byte(s))
	return string(b)
}

// read returns the first n records of the topic.
func read(t *testing.T, c *kfake.Cluster, n int, opts ...kgo.Opt) (records []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("t"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for len(records) < n && ctx.Err() == nil {
		records = append(records, client.PollFetches(ctx).Records()...)
	}
	if len(records) != n {
		t.Fatalf("%d records have come; want %d", len(records), n)
	}
	return records
}
