package get_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

func TestGet(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	var all strings.Builder
	for _, key := range []string{"done", "binary", "large", "released", "flying", "dead", "secret"} {
		r := clitest.Run(t, "get", key, "--namespace", "ledger", "--topic", "payments",
			"--endpoint-url", endpoint)
		if r.Code != 0 || r.Err != "" {
			t.Errorf("get %s: %+v", key, r)
		}
		fmt.Fprintf(&all, "--- %s\n%s", key, scrubVersion(r.Out))
	}
	r := clitest.Run(t, "get", "--endpoint-url", endpoint, "ledger@payments-0@6200@1767231800000")
	fmt.Fprintf(&all, "--- a place\n%s", scrubVersion(r.Out))
	clitest.Golden(t, "get", all.String())
}

// On this machine a key is found without its namespace and topic, if only one entry has it.
func TestGetBareKey(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	if r := clitest.Run(t, "get", "done", "--endpoint-url", endpoint); r.Code != 0 ||
		!strings.Contains(r.Out, "ledger#payments#done") {
		t.Errorf("%+v", r)
	}
	if r := clitest.Run(t, "get", "don", "--endpoint-url", endpoint); r.Code != 1 ||
		!strings.Contains(r.Err, "there is no entry") {
		t.Errorf("%+v", r)
	}
	st, err := dynamostore.New(client, dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	st.Claim(t.Context(), []store.ClaimRequest{{Key: "other#payments#done", Owner: "o", Source: "payments-0@8",
		Lease: time.Minute, Retention: time.Hour}})
	if r := clitest.Run(t, "get", "done", "--endpoint-url", endpoint); r.Code != 1 ||
		!strings.Contains(r.Err, "there are 2 entries") {
		t.Errorf("%+v", r)
	}
}

// A deletion needs a confirmation, and deletes the entry that it has shown.
func TestDelete(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	verb := []string{"delete", "dead", "--namespace", "ledger", "--topic", "payments", "--endpoint-url", endpoint}
	if r := clitest.Run(t, verb...); r.Code != 2 || !strings.Contains(r.Err, "give --yes") {
		t.Errorf("without a confirmation: %+v", r)
	}
	if r := clitest.Run(t, "get", "dead", "--endpoint-url", endpoint); r.Code != 0 {
		t.Errorf("the entry is gone: %+v", r)
	}
	verb = append(verb, "--yes")
	if r := clitest.Run(t, verb...); r.Code != 0 || !strings.Contains(r.Out, "ledger#payments#dead") ||
		!strings.Contains(r.Err, "the entry is deleted") {
		t.Errorf("%+v", r)
	}
	if r := clitest.Run(t, verb...); r.Code != 1 || !strings.Contains(r.Err, "there is no entry") {
		t.Errorf("a second time: %+v", r)
	}
	if r := clitest.Run(t, "get", "done", "--endpoint-url", endpoint); r.Code != 0 {
		t.Errorf("another entry: %+v", r)
	}
}

// scrubVersion also replaces fencing tokens, which are times.
func scrubVersion(text string) string {
	lines := strings.Split(clitest.Scrub(text), "\n")
	for i, line := range lines {
		if name, _, ok := strings.Cut(line, " "); ok && name == "token" {
			lines[i] = "version      1700000000000"
		}
	}
	return strings.Join(lines, "\n")
}

func TestGetJSON(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	r := clitest.Run(t, "get", "ledger#payments#done", "--json", "--endpoint-url="+endpoint)
	var fields map[string]any
	if err := json.Unmarshal([]byte(r.Out), &fields); err != nil || r.Code != 0 ||
		fields["status"] != "COMPLETED" || fields["idempotencyKey"] != "ledger#payments#done" ||
		fields["responsePayload"] == nil {
		t.Errorf("%+v: %v", r, err)
	}
}

func TestKeyThatLooksLikeAFlag(t *testing.T) {
	t.Parallel()
	endpoint, _ := clitest.NewDynamoDB(t)
	for _, args := range [][]string{{"--endpoint-url", endpoint, "--", "--json"}, {"--", "--json"},
		{"--json=false", "--", "--json"}} {
		r := clitest.Run(t, append([]string{"get", "--namespace=n", "--endpoint-url", endpoint}, args...)...)
		if r.Code != 1 || !strings.Contains(r.Err, `no entry for the key "n##--json"`) {
			t.Errorf("get %v: %+v; want that there is no key n##--json", args, r)
		}
	}
}

// A key is given without its topic and namespace. The namespace may be in the environment.
func TestGetByTopic(t *testing.T) {
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	get := func(args ...string) clitest.Result {
		return clitest.Run(t, append([]string{"get", "--endpoint-url", endpoint}, args...)...)
	}
	if r := get("done", "--topic", "payments"); r.Code != 2 ||
		!strings.Contains(r.Err, "--topic needs --namespace") {
		t.Errorf("without a namespace: %+v", r)
	}
	t.Setenv("IDEMSK_NAMESPACE", "ledger")
	if r := get("done", "--topic", "payments"); r.Code != 0 ||
		!strings.Contains(r.Out, "ledger#payments#done") {
		t.Errorf("in the namespace of the environment: %+v", r)
	}
	if r := get("done", "--topic", "payments", "--namespace", "mail"); r.Code != 1 ||
		!strings.Contains(r.Err, `"mail#payments#done"`) {
		t.Errorf("in another one: %+v", r)
	}
}

func TestGetNotFound(t *testing.T) {
	t.Parallel()
	endpoint, _ := clitest.NewDynamoDB(t)
	r := clitest.Run(t, "get", "pay\x1b[31m", "--endpoint-url", endpoint)
	if r.Code != 1 || r.Out != "" || strings.Contains(r.Err, "\x1b") ||
		!strings.Contains(r.Err, "<namespace>#<topic>#<key>") ||
		!strings.Contains(r.Err, "--namespace") || !strings.Contains(r.Err, "--key-has") {
		t.Errorf("%+v; want exit 1 and a hint on how keys are stored", r)
	}
	r = clitest.Run(t, "get", "k", "--endpoint-url", endpoint, "--table", "missing")
	if r.Code != 1 || !strings.Contains(r.Err, "table missing") ||
		!strings.Contains(r.Err, "does not exist") {
		t.Errorf("%+v; want exit 1 and the table named", r)
	}
}

func TestGetWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := clitest.Run(t, "get", "k", "--endpoint-url", "http://127.0.0.1:1")
	if r.Code != 1 || !strings.Contains(r.Err, "nothing listens at 127.0.0.1:1:") ||
		strings.Contains(r.Err, "credentials") {
		t.Errorf("%+v; want exit 1 and what to check", r)
	}
}
