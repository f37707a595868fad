package produce_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/produce"
)

func TestProduce(t *testing.T) {
	t.Parallel()
	brokers := clitest.NewCluster(t)
	if r := clitest.Run(t, "topic", "create", "payments", "--brokers", brokers,
		"--partitions", "1"); r.Code != 0 ||
		r.Err != "idemsk topic: created payments with 1 partition at "+brokers+"\n" {
		t.Fatalf("%+v", r)
	}
	r := clitest.RunWith(t, "\ufeff"+`{"amount":5}`+"\n\n  \nplain text\n", "produce", "--brokers", brokers,
		"--key", "a", "--header", "idempotency-key=pay-1", "--header", "trace=x=y")
	if r.Code != 0 || r.Out != "payments-0@0\npayments-0@1\n" ||
		r.Err != "idemsk produce: 2 records written to payments\n" {
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
	if r = clitest.Run(t, "produce", file, "--brokers", brokers, "--format", "json"); r.Code != 0 ||
		!strings.HasSuffix(r.Out, "payments-0@5\n") {
		t.Errorf("%+v", r)
	}
	want := `a {"amount":5} idempotency-key=pay-1 trace=x=y|a plain text idempotency-key=pay-1 trace=x=y|b {"amount": 6} idempotency-key=pay-2 trace=1| text ü| [1]|c tombstone`
	if got := strings.Join(clitest.ReadTopic(t, brokers, "payments", 6), "|"); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// The first line that can't be written is named and ends the command. The lines before it are written.
func TestProduceStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	brokers := clitest.NewCluster(t, kfake.SeedTopics(1, "payments"))
	for says, test := range map[string]struct {
		input string
		args  []string
	}{
		"line 2: want a record such as":                            {`{"value":1}` + "\nnonsense\n", []string{"--format", "json"}},
		`unknown field "headder"`:                                  {`{"value":1,"headder":{}}`, []string{"--format", "json"}},
		`line 1: the record has no "value"`:                        {`{"key":"a"}`, []string{"--format", "json"}},
		"line 1: want one record in a line":                        {`{"value":1} {"value":2}`, []string{"--format", "json"}},
		"line 2 has more than 10485760 bytes":                      {"a\n" + strings.Repeat("x", produce.MaxLine+1), nil},
		"line 1: producing to nowhere: UNKNOWN_TOPIC_OR_PARTITION": {"a\n", []string{"--topic", "nowhere"}},
		"(the cluster has no such topic: idemsk topic create nowhere)": {"a\n",
			[]string{"--topic", "nowhere"}},
		"line 2: producing to payments: MESSAGE_TOO_LARGE": {"a\n" + strings.Repeat("x", 2_000_000), nil},
	} {
		r := clitest.RunWith(t, test.input,
			append([]string{"produce", "--brokers", brokers}, test.args...)...)
		if r.Code != 1 || !strings.Contains(r.Err, says) {
			t.Errorf("%v: exit %d, %s; want exit 1 and %q", test.args, r.Code, r.Err, says)
		}
	}
	if r := clitest.RunWith(t, "a\nb\n", "produce", "/nowhere", "--brokers", brokers); r.Code != 1 ||
		!strings.Contains(r.Err, "/nowhere") {
		t.Errorf("%+v", r)
	}
}

// failingWriter fails.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestProduceThatCannotPrint(t *testing.T) {
	t.Parallel()
	brokers := clitest.NewCluster(t, kfake.SeedTopics(1, "payments"))
	var said bytes.Buffer
	code := cli.Main(t.Context(), []string{"produce", "--brokers", brokers},
		cli.Streams{In: strings.NewReader("a"), Out: failingWriter{}, Err: &said}, "v1")
	if code != 1 || !strings.Contains(said.String(), "the disk is full") {
		t.Errorf("exit %d: %s", code, &said)
	}
}
