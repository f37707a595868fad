//go:build servers

package outbox_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// outboxID returns the ID of an event.
func outboxID(n int) string { return fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n) }

// secret is in the values and headers of events. It must not be printed.
const secret = "confidential"

// outboxEvent returns an event for a topic that does not exist.
func outboxEvent(n int, key []byte) outbox.Event {
	return outbox.Event{ID: outboxID(n), Topic: "credited", Key: key, Value: []byte(secret),
		Headers: []outbox.Header{{Key: secret, Value: []byte(secret)}}}
}

func TestOutboxOfPostgreSQL(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	run := func(args ...string) clitest.Result {
		t.Helper()
		r := clitest.Run(t, append([]string{"outbox", "--store-url", server.URL()}, args...)...)
		if strings.Contains(r.Out+r.Err, secret) {
			t.Errorf("outbox %v shows what an event holds: %+v", args, r)
		}
		return r
	}
	for _, args := range [][]string{nil, {"--requeue", outboxID(1)}, {"--requeue", "--all", "--yes"}} {
		if r := run(args...); r.Code != 1 || !strings.Contains(r.Err, "idemsk relay --migrate") {
			t.Errorf("%v without the table: %+v; want exit 1 and what to do", args, r)
		}
	}
	if _, err := pgoutbox.Migrate(t.Context(), pool, ""); err != nil {
		t.Fatal(err)
	}
	if r := run(); r.Code != 0 || r.Out != "" ||
		!strings.Contains(r.Err, "0 events parked in the table outbox") {
		t.Errorf("nothing is parked: %+v", r)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	fillOutbox(t, pool)
	relay := []string{"relay", "--store-url", server.URL(),
		"--brokers", strings.Join(cluster.ListenAddrs(), ","), "--until-empty", "--report-every", "200ms",
		"--max-attempts", "1"}
	if r := clitest.Run(t, relay...); r.Code != 0 || !strings.Contains(r.Err, "0 to be sent") {
		t.Fatalf("%+v", r)
	}
	listOutbox(t, run)
	requeueOutbox(t, run)
	clitest.CreateTopic(t, cluster, "credited")
	if r := clitest.Run(t, relay...); r.Code != 0 || !strings.Contains(r.Err, "5 published") {
		t.Errorf("%+v; want all published", r)
	}
}

// fillOutbox publishes events that can't be sent.
func fillOutbox(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = pgoutbox.Publish(t.Context(), tx, outboxEvent(1, []byte("acc-1")),
		outboxEvent(2, []byte("\x1b[2J"+strings.Repeat("k", 100))),
		outboxEvent(3, []byte{0xfe}), outboxEvent(4, nil), outboxEvent(5, []byte("acc-1")))
	if err == nil {
		err = tx.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func listOutbox(t *testing.T, run func(args ...string) clitest.Result) {
	t.Helper()
	r := run()
	lines := strings.Split(strings.TrimSuffix(r.Out, "\n"), "\n")
	if r.Code != 0 || len(lines) != 6 ||
		!strings.Contains(r.Err, "5 events parked in the table outbox in PostgreSQL\n") {
		t.Fatalf("%+v; want five events under a headline", r)
	}
	for n, says := range []string{
		`^ID +TOPIC +KEY +CREATED +PARKED +ATTEMPTS +FAILURE$`,
		`^` + outboxID(1) + ` +credited +acc-1 +(now|\d+s ago) +(now|\d+s ago) +1 +topic "credited": UNKNOWN_TOPIC_OR_PARTITION`,
		`^` + outboxID(2) + ` +credited +\\x1b\[2Jk{52}… `,
		`^` + outboxID(3) + ` +credited +\\xfe `,
		`^` + outboxID(4) + ` +credited +(now|\d+s ago) `,
	} {
		if at := func(line string) bool { return regexp.MustCompile(says).MatchString(line) }; n == 0 &&
			!at(lines[0]) || n > 0 && !anyOf(lines, at) {
			t.Errorf("no line like %s in\n%s", says, r.Out)
		}
	}
	if r := run("--limit", "2"); r.Code != 0 || strings.Count(r.Out, "\n") != 3 ||
		!strings.Contains(r.Err,
			"2 events parked in the table outbox in PostgreSQL, the first found; there are more") {
		t.Errorf("--limit 2: %+v", r)
	}
	if r := run("--limit", "5"); strings.Contains(r.Err, "more") {
		t.Errorf("--limit 5: %+v; there are no more", r)
	}
	r = run("--json", "--limit", "0")
	found := make(map[string]map[string]any)
	for line := range strings.Lines(r.Out) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		found[fmt.Sprint(e["id"])] = e
	}
	for n, want := range map[int][2]any{1: {"acc-1", nil}, 3: {nil, "/g=="}, 4: {nil, nil},
		5: {"acc-1", nil}} {
		e := found[outboxID(n)]
		if e == nil || e["key"] != want[0] || e["keyBase64"] != want[1] || e["topic"] != "credited" ||
			e["attempts"] != 1.0 ||
			!strings.Contains(fmt.Sprint(e["failure"]), "UNKNOWN_TOPIC") ||
			!strings.HasSuffix(fmt.Sprint(e["createdAt"]), "Z") || e["parkedAt"] == nil || len(e) > 7 {
			t.Errorf("event %d in JSON: %v", n, e)
		}
	}
	if len(found) != 5 {
		t.Errorf("%d events in JSON, want 5: %+v", len(found), r)
	}
}

func anyOf(lines []string, match func(string) bool) bool {
	for _, line := range lines {
		if match(line) {
			return true
		}
	}
	return false
}

func requeueOutbox(t *testing.T, run func(args ...string) clitest.Result) {
	t.Helper()
	// One event exists, named several times in different notations. Two do not exist, and are named.
	r := run("--requeue", outboxID(1), strings.ToUpper(outboxID(1)), outboxID(7), "no\x1bid", "no\x1bid")
	if r.Code != 1 || !strings.Contains(r.Err, "  "+outboxID(7)+" is not parked in the table outbox") ||
		strings.Count(r.Err, `  no\x1bid is not parked`) != 1 ||
		strings.Contains(r.Err, outboxID(1)) || !strings.Contains(r.Err, "1 event requeued") {
		t.Errorf("%+v; want one requeued and two named", r)
	}
	if r := run("--requeue", outboxID(1)); r.Code != 1 ||
		!strings.Contains(r.Err, outboxID(1)+" is not parked") ||
		!strings.Contains(r.Err, "0 events requeued") {
		t.Errorf("again: %+v", r)
	}
	if r := run(); strings.Contains(r.Out, outboxID(1)) || !strings.Contains(r.Err, "4 events") {
		t.Errorf("%+v; want the other four", r)
	}
	for _, want := range []string{"4 events requeued in the table outbox in PostgreSQL",
		"0 events requeued"} {
		if r := run("--requeue", "--all", "--yes"); r.Code != 0 || !strings.Contains(r.Err, want) {
			t.Errorf("all: %+v, want %q", r, want)
		}
	}
}
