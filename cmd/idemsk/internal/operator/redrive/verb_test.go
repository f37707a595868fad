package redrive_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/oracle"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/kafka"
)

// cloud is what the function needs, in this process: DynamoDB, and SQS and Lambda's Invoke at one endpoint.
type cloud struct {
	url    string
	dynamo string // the endpoint of DynamoDB alone
	sqs    *sqs.Client
	env    *testenv.Environment
	queue  string

	mu       sync.Mutex
	function *runtimeapi.Function
	log      []string // of the invocation under way
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	c := &cloud{}
	queues, err := sqsfake.New(sqsfake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", queues)
	mux.HandleFunc("POST /2015-03-31/functions/payments/invocations", c.invoke)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.url = server.URL
	c.sqs = sqs.NewFromConfig(awstest.Config(t, c.url))
	var tables *dynamodb.Client
	c.dynamo, tables = clitest.StartDynamoDB(t)
	c.env, err = testenv.InDynamoDB(tables,
		testenv.Names{Keys: dynamostore.DefaultTable, Ledger: "idemsk-ledger"}, c.sqs)
	if err == nil {
		err = c.env.Create(t.Context(), "letters")
	}
	if err != nil {
		t.Fatal(err)
	}
	c.queue = c.env.Queue
	return c
}

// deploy starts the example function with variables, and stops the function that it replaces.
func (c *cloud) deploy(t *testing.T, env ...string) {
	t.Helper()
	note := func(line []byte) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.log = append(c.log, string(line))
	}
	f, err := runtimeapi.Start(t.Context(), runtimeapi.Config{
		Command: []string{handler}, Name: "payments", Timeout: time.Minute, Stdout: note, Stderr: note,
		Env: append([]string{
			"AWS_ENDPOINT_URL_DYNAMODB=" + c.dynamo, "AWS_ENDPOINT_URL_SQS=" + c.url, "AWS_ACCESS_KEY_ID=id",
			"AWS_SECRET_ACCESS_KEY=secret",
			"IDEMSK_DEAD_LETTER_QUEUE_URL=" + c.queue, "IDEMSK_FAILURES=partial",
		}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.function != nil {
		c.function.Close(context.Background())
	}
	c.function = f
	t.Cleanup(func() { f.Close(context.Background()) })
}

// invoke is Lambda's Invoke.
func (c *cloud) invoke(w http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	c.mu.Lock()
	c.log = nil
	c.mu.Unlock()
	result, err := c.function.Invoke(r.Context(), event)
	c.mu.Lock()
	w.Header().Set("X-Amz-Log-Result", base64.StdEncoding.EncodeToString([]byte(strings.Join(c.log, "\n"))))
	c.mu.Unlock()
	var failed *runtimeapi.FunctionError
	if errors.As(err, &failed) {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		result.Payload = failed.Payload
	}
	_, _ = w.Write(result.Payload)
}

func sampleEvent(t *testing.T, name string) []byte {
	t.Helper()
	payload, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "events", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// play delivers a sample event to the function once, as the event source mapping does.
func (c *cloud) play(t *testing.T, name string) {
	t.Helper()
	if _, err := c.function.Invoke(t.Context(), sampleEvent(t, name)); err != nil {
		t.Fatal(err)
	}
}

// verify compares what the function has written, and the dead letters that are left, with what its variables
// make of a sample event.
func (c *cloud) verify(t *testing.T, name string, env ...string) {
	t.Helper()
	rules, err := oracle.ReadRules("payments", env)
	if err != nil {
		t.Fatal(err)
	}
	want := oracle.New(rules)
	event, err := mskevent.Parse(name, sampleEvent(t, name))
	if err == nil {
		err = want.Add(event.Records)
	}
	if err != nil {
		t.Fatal(err)
	}
	found, err := c.env.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var letters []kafka.DeadLetter
	for _, body := range c.bodies(t) {
		letter, err := kafka.ParseDeadLetter([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, letter)
	}
	for _, problem := range verify.Run(want, found, letters, nil, 0).Problems {
		t.Error(problem)
	}
}

// bodies returns the messages in the queue, which stay there.
func (c *cloud) bodies(t *testing.T) (bodies []string) {
	t.Helper()
	out, err := c.sqs.ReceiveMessage(t.Context(),
		&sqs.ReceiveMessageInput{QueueUrl: &c.queue, MaxNumberOfMessages: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range out.Messages {
		back := &sqs.ChangeMessageVisibilityInput{QueueUrl: &c.queue, ReceiptHandle: m.ReceiptHandle}
		if _, err := c.sqs.ChangeMessageVisibility(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, *m.Body)
	}
	return bodies
}

func (c *cloud) letters(t *testing.T) int { t.Helper(); return len(c.bodies(t)) }

// A poison record becomes a dead letter. After its cause is fixed, redrive to the function executes it once.
func TestRedriveToTheFunction(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.deploy(t, "IDEMSK_SIMULATE=on")
	c.play(t, "poison-record")
	c.verify(t, "poison-record")
	redrive := []string{"redrive", "--endpoint-url", c.url, "--queue-url", c.queue,
		"--function-name", "payments", "--yes"}

	dry := clitest.Run(t, append(redrive, "--dry-run")...)
	if dry.Code != 0 || !strings.Contains(dry.Out, "would redrive  payments-0@7001") || c.letters(t) != 1 {
		t.Errorf("dry run: %+v, %d letters left", dry, c.letters(t))
	}
	u, err := url.Parse(c.queue)
	if err != nil {
		t.Fatal(err)
	}
	look := clitest.Run(t, "redrive", "--queue-url", c.url+u.Path, "--dry-run") // at the address in the URL
	for _, want := range []string{"would redrive  payments-0@7001", `"paymentId":`, "idempotency-key="} {
		if look.Code != 0 || !strings.Contains(look.Out, want) {
			t.Errorf("a dry run without other flags: %+v; want %s", look, want)
		}
	}
	const value = `{"paymentId":"poison-record-2","account":"acc-1","amount":200,"currency":"EUR","simulate":"permanent"}`
	one := clitest.Run(t, "redrive", "--queue-url", c.url+u.Path, "--dry-run", "--key", "poison-record-2")
	if !strings.Contains(one.Out, "value          "+value+"\n") { // the table shortens it
		t.Errorf("a dry run of one key: %+v; want %s", one, value)
	}
	object := clitest.Run(t, "redrive", "--queue-url", c.url+u.Path, "--dry-run", "--json")
	if !strings.Contains(object.Out, `"value":{"text":`+strconv.Quote(value)) {
		t.Errorf("a dry run in JSON: %+v; want the value as text", object)
	}
	again := clitest.Run(t, redrive...) // the cause is there still
	if again.Code != 1 || !strings.Contains(again.Out, "failed again") ||
		!strings.Contains(again.Err, "not fixed") || c.letters(t) != 1 {
		t.Errorf("before the fix: %+v, %d letters; want the old one gone, and a new one", again, c.letters(t))
	}
	c.deploy(t)
	fixed := clitest.Run(t, redrive...)
	if fixed.Code != 0 || c.letters(t) != 0 {
		t.Errorf("%+v; %d letters; want none", fixed, c.letters(t))
	}
	c.verify(t, "poison-record", "IDEMSK_SIMULATE=off")
	clitest.Golden(t, "redrive-function", fixed.Out+fixed.Err)
	if r := clitest.Run(t, redrive...); r.Code != 0 || r.Out != "" ||
		!strings.Contains(r.Err, "there are no dead letters") {
		t.Errorf("with an empty queue: %+v", r)
	}
}

func TestRedriveToTheTopic(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"))
	for _, body := range []string{clitest.LetterJSON(1), clitest.LetterJSON(2), "hello",
		clitest.LetterJSON(1)} {
		if _, err := c.sqs.SendMessage(t.Context(),
			&sqs.SendMessageInput{QueueUrl: &c.queue, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	r := clitest.Run(t, "redrive", "--endpoint-url", c.url, "--queue-url", c.queue, "--brokers", brokers,
		"--yes")
	if r.Code != 1 || c.letters(t) != 1 || strings.Contains(r.Out+r.Err, "\x1b") {
		t.Errorf("exit %d, %d messages left; want 1, and 1 that is no letter\n%s", r.Code, c.letters(t),
			r.Out+r.Err)
	}
	id := strings.Fields(r.Err[strings.Index(r.Err, "message (")+len("message ("):])[0]
	clitest.Golden(t, "redrive-topic", strings.ReplaceAll(r.Out+r.Err, strings.TrimSuffix(id, "):"), "<id>"))
}

// A topic of dead letters is read to its end. What was redriven is not redriven again, and a function gets
// its letters only.
func TestRedriveFromATopic(t *testing.T) {
	t.Parallel()
	brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"), kfake.SeedTopics(1, "letters"))
	clitest.FillLetterTopic(t, brokers, "payments", 1)
	clitest.FillLetterTopic(t, brokers, "audit", 2)
	clitest.FillLetterTopic(t, brokers, "payments", 1)
	redrive := []string{"redrive", "--dead-letter-topic", "letters", "--brokers", brokers}
	for _, step := range []struct{ args, says string }{
		{"--dry-run", "2 would redrive, 1 duplicate"},
		{"--yes --of-function payments", "1 redriven, 1 duplicate, 1 of another function (--of-function)"},
		{"--yes --of-function payments", "1 of another function (--of-function)"},
		{"--yes", "1 redriven"},
		{"--yes", "there are no dead letters"},
	} {
		r := clitest.Run(t, append(redrive, strings.Fields(step.args)...)...)
		if r.Code != 0 || !strings.Contains(r.Err, "idemsk redrive: "+step.says+"\n") {
			t.Errorf("%s: %+v; want %q", step.args, r, step.says)
		}
	}
	want := []string{" {} idemsk-redrive=17 permanent", " {} idemsk-redrive=17 permanent"}
	if got := clitest.ReadTopic(t, brokers, "payments", 2); !slices.Equal(got, want) {
		t.Errorf("redriven: %q; want %q", got, want)
	}
	if r := clitest.Run(t, "redrive", "--dead-letter-topic", "missing", "--brokers", brokers,
		"--yes"); r.Code != 1 || !strings.Contains(r.Err, "no such topic") {
		t.Errorf("without the topic: %+v", r)
	}
}

// A letter that is discarded leaves its source and goes nowhere. Letters of other keys stay.
func TestDiscard(t *testing.T) {
	t.Parallel()
	brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"), kfake.SeedTopics(1, "letters"))
	clitest.FillLetterTopic(t, brokers, "payments", 1)
	clitest.FillLetterTopic(t, brokers, "payments", 2)
	source := []string{"redrive", "--dead-letter-topic", "letters", "--brokers", brokers}
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--discard", "--yes"}, 2, "--discard needs --key"},
		{[]string{"--discard", "--key", "payments#p-1\x1b"}, 2, "give --yes"},
		{[]string{"--discard", "--key", "payments#p-1\x1b", "--yes"}, 0, "1 discarded, 1 with another key"},
		{[]string{"--discard", "--key", "payments#p-1\x1b", "--yes"}, 0, "1 with another key"},
		{[]string{"--yes"}, 0, "1 redriven"},
	} {
		r := clitest.Run(t, append(source, step.args...)...)
		if r.Code != step.code || !strings.Contains(r.Err, step.says) {
			t.Errorf("%q: %+v; want %q", step.args, r, step.says)
		}
	}
	if got := clitest.ReadTopic(t, brokers, "payments", 1); len(got) != 1 {
		t.Errorf("redriven: %q; want the letter of the other key", got)
	}
}

func TestRedriveFromAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	line := func(offset int) string { return strings.ReplaceAll(clitest.LetterJSON(offset), "\n", "") + "\n" }
	if err := os.WriteFile(path, []byte(line(1)+line(2)+line(3)), 0o600); err != nil {
		t.Fatal(err)
	}
	brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"))
	r := clitest.Run(t, "redrive", "--file", path, "--brokers", brokers, "--yes", "--limit", "2", "--json")
	if r.Code != 0 || strings.Count(r.Out, "\n") != 2 || !strings.Contains(r.Out, `"where":"payments-1@1"`) ||
		strings.Contains(r.Out, "\x1b") {
		t.Errorf("%+v", r)
	}
	r = clitest.Run(t, "redrive", "--file", path, "--brokers", brokers, "--yes", "--key", "payments#p-3\x1b")
	if r.Code != 0 || !strings.Contains(r.Err, "1 redriven, 2 with another key") {
		t.Errorf("%+v", r)
	}
	if r := clitest.Run(t, "redrive", "--file", path+".not", "--brokers", brokers, "--yes"); r.Code != 1 ||
		!strings.Contains(r.Err, "letters.jsonl.not") {
		t.Errorf("%+v", r)
	}
}

// Dead letters of other functions and clusters are kept and counted.
func TestRedriveOfOneFunctionOrCluster(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	var lines string
	for n, of := range []string{`"function":"payments"`, `"function":"audit"`,
		`"function":"payments","cluster":"one"`, `"function":"payments","cluster":"two"`} {
		lines += strings.Replace(strings.ReplaceAll(clitest.LetterJSON(n), "\n", ""), `"topic"`,
			of+`,"topic"`, 1) + "\n"
	}
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	redrive := []string{"redrive", "--file", path,
		"--brokers", clitest.NewCluster(t, kfake.SeedTopics(3, "payments")), "--yes"}
	for args, want := range map[string]string{
		"":                      "3 redriven, 1 of another cluster (--of-cluster)",
		"--of-function audit":   "1 redriven, 3 of another function (--of-function)",
		"--of-cluster two":      "3 redriven, 1 of another cluster (--of-cluster)",
		"--of-function payment": "4 of another function (--of-function)",
	} {
		if r := clitest.Run(t, append(redrive, strings.Fields(args)...)...); r.Code != 0 ||
			!strings.Contains(r.Err, "idemsk redrive: "+want) {
			t.Errorf("%s: %+v; want %q", args, r, want)
		}
	}
}

// Results are printed during the run, in tables of 1,000 rows.
func TestRedriveOfManyLetters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "letters.jsonl")
	var lines strings.Builder
	for n := range 1500 {
		lines.WriteString(strings.ReplaceAll(clitest.LetterJSON(n), "\n", "") + "\n")
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r := clitest.Run(t, "redrive", "--file", path, "--brokers", clitest.NewCluster(t), "--dry-run")
	if r.Code != 0 || strings.Count(r.Out, "OUTCOME") != 2 || strings.Count(r.Out, "would redrive") != 1500 {
		t.Errorf("exit %d, %d tables, %d results", r.Code, strings.Count(r.Out, "OUTCOME"),
			strings.Count(r.Out, "would redrive"))
	}
}

func TestRedriveFromNoQueue(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	r := clitest.Run(t, "redrive", "--endpoint-url", c.url, "--queue-url", c.queue+"-not",
		"--function-name", "payments", "--yes")
	if r.Code != 1 || !strings.Contains(r.Err, "no such queue") {
		t.Errorf("%+v", r)
	}
	c.queue += "-not"
	if r := clitest.Run(t, "redrive", "--queue-url", c.queue, "--brokers", "127.0.0.1:1", "--yes",
		"--endpoint-url", c.url); r.Code != 1 ||
		!strings.Contains(r.Err, "no Kafka broker answers at 127.0.0.1:1") {
		t.Errorf("%+v", r)
	}
}
