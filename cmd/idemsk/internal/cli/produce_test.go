package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/produce"
)

// newCluster starts a cluster with the topics of the options. It does not create topics automatically.
func newCluster(t *testing.T, opts ...kfake.Opt) (brokers string) {
	t.Helper()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.ListenFn(loopback))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return strings.Join(c.ListenAddrs(), ",")
}

// readTopic reads the first n records of a topic, as "key value header=value".
func readTopic(t *testing.T, brokers, topic string, n int) (records []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("there are fewer records"))
	defer cancel()
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			text := fmt.Sprintf("%s %s", r.Key, r.Value)
			if r.Value == nil {
				text = string(r.Key) + " tombstone"
			}
			for _, h := range r.Headers {
				text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
			}
			records = append(records, text)
		}
	}
	return records
}

// fed runs the tool with a text on its standard input.
func fed(t *testing.T, input string, args ...string) result {
	t.Helper()
	var out, err output
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code := cli.Main(ctx, args, cli.Streams{In: strings.NewReader(input), Out: &out, Err: &err}, "v1")
	return result{code: code, out: out.String(), err: err.String()}
}

func TestProduce(t *testing.T) {
	t.Parallel()
	brokers := newCluster(t)
	if r := idemsk(t, "topic", "create", "payments", "--brokers", brokers, "--partitions", "1"); r.code != 0 ||
		r.err != "idemsk topic: created payments with 1 partition at "+brokers+"\n" {
		t.Fatalf("%+v", r)
	}
	r := fed(t, "\ufeff"+`{"amount":5}`+"\n\n  \nplain text\n", "produce", "--brokers", brokers, "--key", "a", "--header", "idempotency-key=pay-1", "--header", "trace=x=y")
	if r.code != 0 || r.out != "payments-0@0\npayments-0@1\n" || r.err != "idemsk produce: 2 records written to payments\n" {
		t.Errorf("%+v", r)
	}
	file := filepath.Join(t.TempDir(), "payments.jsonl")
	lines := `{"key":"b","value":{"amount": 6},"headers":{"trace":"1","idempotency-key":"pay-2"}}
{"value":"text \u00fc"}
{"key":"","value":[1]}
{"key":"c","value":null}`
	if err := os.WriteFile(file, []byte("\ufeff"+lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if r = idemsk(t, "produce", file, "--brokers", brokers, "--format", "json"); r.code != 0 || !strings.HasSuffix(r.out, "payments-0@5\n") {
		t.Errorf("%+v", r)
	}
	want := `a {"amount":5} idempotency-key=pay-1 trace=x=y|a plain text idempotency-key=pay-1 trace=x=y|b {"amount": 6} idempotency-key=pay-2 trace=1| text ü| [1]|c tombstone`
	if got := strings.Join(readTopic(t, brokers, "payments", 6), "|"); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// The first line that can't be written is named and ends the command. The lines before it are written.
func TestProduceStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	brokers := newCluster(t, kfake.SeedTopics(1, "payments"))
	for says, test := range map[string]struct {
		input string
		args  []string
	}{
		"line 2: want a record such as":                                {`{"value":1}` + "\nnonsense\n", []string{"--format", "json"}},
		`unknown field "headder"`:                                      {`{"value":1,"headder":{}}`, []string{"--format", "json"}},
		`line 1: the record has no "value"`:                            {`{"key":"a"}`, []string{"--format", "json"}},
		"line 1: want one record in a line":                            {`{"value":1} {"value":2}`, []string{"--format", "json"}},
		"line 2 has more than 10485760 bytes":                          {"a\n" + strings.Repeat("x", produce.MaxLine+1), nil},
		"line 1: producing to nowhere: UNKNOWN_TOPIC_OR_PARTITION":     {"a\n", []string{"--topic", "nowhere"}},
		"(the cluster has no such topic: idemsk topic create nowhere)": {"a\n", []string{"--topic", "nowhere"}},
		"line 2: producing to payments: MESSAGE_TOO_LARGE":             {"a\n" + strings.Repeat("x", 2_000_000), nil},
	} {
		r := fed(t, test.input, append([]string{"produce", "--brokers", brokers}, test.args...)...)
		if r.code != 1 || !strings.Contains(r.err, says) {
			t.Errorf("%v: exit %d, %s; want exit 1 and %q", test.args, r.code, r.err, says)
		}
	}
	if r := fed(t, "a\nb\n", "produce", "/nowhere", "--brokers", brokers); r.code != 1 || !strings.Contains(r.err, "/nowhere") {
		t.Errorf("%+v", r)
	}
}

func TestTopicThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	brokers := newCluster(t, kfake.SeedTopics(1, "payments"))
	for says, args := range map[string][]string{
		"TOPIC_ALREADY_EXISTS":                      {"payments"},
		"INVALID_REPLICATION_FACTOR":                {"other", "--replication-factor", "3"},
		"creating the topic payments at " + brokers: {"payments"},
	} {
		if r := idemsk(t, append([]string{"topic", "create", "--brokers", brokers}, args...)...); r.code != 1 || !strings.Contains(r.err, says) {
			t.Errorf("%v: %+v; want exit 1 and %q", args, r, says)
		}
	}
}

// failingWriter fails.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestProduceThatCannotPrint(t *testing.T) {
	t.Parallel()
	brokers := newCluster(t, kfake.SeedTopics(1, "payments"))
	var said bytes.Buffer
	code := cli.Main(t.Context(), []string{"produce", "--brokers", brokers}, cli.Streams{In: strings.NewReader("a"), Out: failingWriter{}, Err: &said}, "v1")
	if code != 1 || !strings.Contains(said.String(), "the disk is full") {
		t.Errorf("exit %d: %s", code, &said)
	}
}
