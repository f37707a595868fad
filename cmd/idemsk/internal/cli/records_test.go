package cli_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
)

// fill adds keys in all states to the table, by the store.
func fill(t *testing.T, client *dynamodb.Client) {
	t.Helper()
	now := time.Now()
	claim := func(key string, age, lease time.Duration) *store.Entry {
		clock := func() time.Time { return now.Add(-age) }
		st, err := dynamostore.New(client, dynamostore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		res := st.Claim(t.Context(), []store.ClaimRequest{{
			Key: key, Owner: "owner-" + key, Source: "payments-0@7", Lease: lease, Retention: 168 * time.Hour, Fingerprint: store.FingerprintOf([]byte("v")),
		}})
		if res[0].Err != nil {
			t.Fatal(res[0].Err)
		}
		return &res[0].Entry
	}
	settle := func(entry *store.Entry, set store.Settlement, age time.Duration) {
		st, err := dynamostore.New(client, dynamostore.Config{Clock: func() time.Time { return now.Add(-age) }})
		if err != nil {
			t.Fatal(err)
		}
		set.Key, set.Token, set.Owner, set.Retention = entry.Key, entry.Token, entry.Owner, 168*time.Hour
		if errs := st.Settle(t.Context(), []store.Settlement{set}); errs != nil {
			t.Fatal(errs)
		}
	}
	receipt := []byte(`{"balance":1250}` + "\x1b")
	settle(claim("ledger#payments#done", 3*time.Hour, time.Minute), store.Settlement{Op: store.OpComplete, Result: receipt}, 3*time.Hour)
	settle(claim("ledger#payments#binary", 2*time.Hour, time.Minute), store.Settlement{Op: store.OpComplete, Result: []byte{0xff, 0}}, 2*time.Hour)
	settle(claim("ledger#payments#large", 2*time.Hour, time.Minute), store.Settlement{Op: store.OpComplete, ResultOmitted: 9999}, 2*time.Hour)
	settle(claim("ledger@payments-0@6200@1767231800000", 50*time.Hour, time.Minute), store.Settlement{Op: store.OpFail,
		Failure: &store.Failure{Code: store.CodePermanent, Message: "evil \x1b]0;x\a\nmessage " + strings.Repeat("x", 80)}}, 50*time.Hour)
	settle(claim("ledger#payments#released", 10*time.Minute+30*time.Second, time.Minute), store.Settlement{Op: store.OpRelease, Delay: 3 * time.Hour,
		Failure: &store.Failure{Code: store.CodeError, Message: "try again"}}, 10*time.Minute+30*time.Second)
	claim("ledger#payments#flying", 10*time.Minute+30*time.Second, 41*time.Minute)
	claim("ledger#payments#dead", 90*time.Minute, time.Minute)
	fillLeases(t, client, now)
	hashed, err := store.Key("ledger#payments#secret", true)
	if err != nil {
		t.Fatal(err)
	}
	settle(claim(hashed, time.Hour+time.Minute, time.Minute), store.Settlement{Op: store.OpComplete}, time.Hour+time.Minute)
}

// fillLeases adds the leases of three partitions: one that was released, one of a live owner, and one of a dead owner.
func fillLeases(t *testing.T, client *dynamodb.Client, now time.Time) {
	t.Helper()
	st, err := dynamostore.New(client, dynamostore.Config{Clock: func() time.Time { return now.Add(-10*time.Minute - 30*time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	var reqs []store.ClaimRequest
	for partition, lease := range []time.Duration{time.Minute, 41 * time.Minute, time.Minute} {
		reqs = append(reqs, store.ClaimRequest{
			Key: fmt.Sprintf("ledger%%payments-%d", partition), Owner: fmt.Sprint("owner-", partition), Source: fmt.Sprintf("payments-%d@6100", partition),
			Lease: lease, Retention: 168 * time.Hour, Range: &store.Range{End: 6200},
		})
	}
	released := st.Claim(t.Context(), reqs)[0]
	if released.Err != nil {
		t.Fatal(released.Err)
	}
	if errs := st.Settle(t.Context(), []store.Settlement{{
		Op: store.OpRelease, Key: released.Entry.Key, Token: released.Entry.Token, Owner: released.Entry.Owner, Retention: 168 * time.Hour,
		Range: &store.Range{Till: 6300},
	}}); errs != nil {
		t.Fatal(errs)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	endpoint, client := newDynamoDB(t)
	fill(t, client)
	var all strings.Builder
	for _, key := range []string{"done", "binary", "large", "released", "flying", "dead", "secret"} {
		r := idemsk(t, "get", key, "--namespace", "ledger", "--topic", "payments", "--endpoint-url", endpoint)
		if r.code != 0 || r.err != "" {
			t.Errorf("get %s: %+v", key, r)
		}
		fmt.Fprintf(&all, "--- %s\n%s", key, scrubVersion(r.out))
	}
	r := idemsk(t, "get", "--endpoint-url", endpoint, "ledger@payments-0@6200@1767231800000")
	fmt.Fprintf(&all, "--- a place\n%s", scrubVersion(r.out))
	for partition := range 3 {
		r := idemsk(t, "get", "--endpoint-url", endpoint, fmt.Sprintf("ledger%%payments-%d", partition))
		fmt.Fprintf(&all, "--- the lease of partition %d\n%s", partition, scrubVersion(r.out))
	}
	golden(t, "get", all.String())
}

// scrubVersion also replaces fencing tokens, which are times.
func scrubVersion(text string) string {
	lines := strings.Split(scrub(text), "\n")
	for i, line := range lines {
		if name, _, ok := strings.Cut(line, " "); ok && name == "token" {
			lines[i] = "version      1700000000000"
		}
	}
	return strings.Join(lines, "\n")
}

func TestGetJSON(t *testing.T) {
	t.Parallel()
	endpoint, client := newDynamoDB(t)
	fill(t, client)
	r := idemsk(t, "get", "ledger#payments#done", "--json", "--endpoint-url="+endpoint)
	var fields map[string]any
	if err := json.Unmarshal([]byte(r.out), &fields); err != nil || r.code != 0 ||
		fields["status"] != "COMPLETED" || fields["idempotencyKey"] != "ledger#payments#done" || fields["responsePayload"] == nil {
		t.Errorf("%+v: %v", r, err)
	}
	r = idemsk(t, "get", "ledger%payments-0", "--json", "--endpoint-url="+endpoint)
	var lease struct {
		Range struct{ Till int64 }
	}
	if err := json.Unmarshal([]byte(r.out), &lease); err != nil || lease.Range.Till != 6300 {
		t.Errorf("%+v: %v; want till 6300", r, err)
	}
}

func TestKeyThatLooksLikeAFlag(t *testing.T) {
	t.Parallel()
	endpoint, _ := newDynamoDB(t)
	for _, args := range [][]string{{"--endpoint-url", endpoint, "--", "--json"}, {"--", "--json"}, {"--json=false", "--", "--json"}} {
		r := idemsk(t, append([]string{"get", "--namespace=n", "--endpoint-url", endpoint}, args...)...)
		if r.code != 1 || !strings.Contains(r.err, `no entry for the key "n##--json"`) {
			t.Errorf("get %v: %+v; want that there is no key n##--json", args, r)
		}
	}
}

// A key is given without its topic and namespace. The namespace may be in the environment.
func TestGetByTopic(t *testing.T) {
	endpoint, client := newDynamoDB(t)
	fill(t, client)
	get := func(args ...string) result {
		return idemsk(t, append([]string{"get", "--endpoint-url", endpoint}, args...)...)
	}
	if r := get("done", "--topic", "payments"); r.code != 2 || !strings.Contains(r.err, "--topic needs --namespace") {
		t.Errorf("without a namespace: %+v", r)
	}
	t.Setenv("IDEMSK_NAMESPACE", "ledger")
	if r := get("done", "--topic", "payments"); r.code != 0 || !strings.Contains(r.out, "ledger#payments#done") {
		t.Errorf("in the namespace of the environment: %+v", r)
	}
	if r := get("done", "--topic", "payments", "--namespace", "mail"); r.code != 1 || !strings.Contains(r.err, `"mail#payments#done"`) {
		t.Errorf("in another one: %+v", r)
	}
	if r := get("done"); r.code != 1 || !strings.Contains(r.err, `no entry for the key "done"`) {
		t.Errorf("without a topic the key is the stored one: %+v", r)
	}
}

func TestGetNotFound(t *testing.T) {
	t.Parallel()
	endpoint, _ := newDynamoDB(t)
	r := idemsk(t, "get", "pay\x1b[31m", "--endpoint-url", endpoint)
	if r.code != 1 || r.out != "" || strings.Contains(r.err, "\x1b") || !strings.Contains(r.err, "<namespace>#<topic>#<key>") ||
		!strings.Contains(r.err, "--namespace") || !strings.Contains(r.err, "--key-has") {
		t.Errorf("%+v; want exit 1 and a hint on how keys are stored", r)
	}
	r = idemsk(t, "get", "k", "--endpoint-url", endpoint, "--table", "missing")
	if r.code != 1 || !strings.Contains(r.err, "table missing") || !strings.Contains(r.err, "does not exist") {
		t.Errorf("%+v; want exit 1 and the table named", r)
	}
}

func TestGetWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := idemsk(t, "get", "k", "--endpoint-url", "http://127.0.0.1:1")
	if r.code != 1 || !strings.Contains(r.err, "no answer from AWS") || !strings.Contains(r.err, "credentials") {
		t.Errorf("%+v; want exit 1 and what to check", r)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	endpoint, client := newDynamoDB(t)
	fill(t, client)
	r := idemsk(t, "list", "--endpoint-url", endpoint)
	for _, says := range []string{"scanning the table idemsk", "read unit", "8 entries\n"} {
		if r.code != 0 || !strings.Contains(r.err, says) {
			t.Errorf("list: exit %d, %q; want 0, and %q said", r.code, r.err, says)
		}
	}
	golden(t, "list", sortedBody(r.out))
	r = idemsk(t, "list", "--leases", "--endpoint-url", endpoint)
	if r.code != 0 || !strings.Contains(r.err, "11 entries\n") {
		t.Errorf("list --leases: %+v", r)
	}
	golden(t, "list-leases", sortedBody(r.out))
	for args, want := range map[string]string{
		"--status FAILED": "ledger@payments-0@6200@1767231800000",
		"--overdue":       "ledger#payments#dead",
		"--status STARTED --before 30s --overdue": "ledger#payments#dead",
		"--before 49h":  "ledger@payments-0@6200@1767231800000",
		"--key-has fly": "ledger#payments#flying",
		"--leases --overdue --key-has %payments-2": "ledger%payments-2",
	} {
		r := idemsk(t, append([]string{"list", "--json", "--endpoint-url", endpoint}, strings.Fields(args)...)...)
		var rec struct{ IdempotencyKey string }
		if err := json.Unmarshal([]byte(r.out), &rec); err != nil || rec.IdempotencyKey != want || r.code != 0 {
			t.Errorf("list %s: %+v (%v); want %s alone", args, r, err, want)
		}
	}
	r = idemsk(t, "list", "--limit", "3", "--endpoint-url", endpoint)
	if strings.Count(r.out, "\n") != 4 || !strings.Contains(r.err, "there are more") {
		t.Errorf("list --limit 3: %+v", r)
	}
	if r := idemsk(t, "list", "--key-has", "missing", "--endpoint-url", endpoint); r.code != 0 || r.out != "" || !strings.Contains(r.err, "0 entries") {
		t.Errorf("list of nothing: %+v", r)
	}
	if r := idemsk(t, "list", "--table", "missing", "--endpoint-url", endpoint); r.code != 1 || !strings.Contains(r.err, "missing") {
		t.Errorf("list of no table: %+v", r)
	}
}

// sortedBody sorts the rows of a table, because a scan has no order.
func sortedBody(text string) string {
	head, body, _ := strings.Cut(text, "\n")
	return head + "\n" + strings.Join(slices.Sorted(strings.Lines(body)), "")
}
