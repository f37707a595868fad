package local_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// ledger returns options that run the example function and verify its ledger.
func ledger(t *testing.T, env ...string) (local.Options, *transcript) {
	t.Helper()
	o, s := options(t, "")
	o.Function, o.Example, o.Prove = "'"+handler+"'", true, true
	o.Env = append([]string{"IDEMSK_LEASE=500ms"}, env...)
	o.ESM.FunctionResponseTypes = []string{esm.ReportBatchItemFailures}
	return o, s
}

// deliver replaces the topic by the named sample events, or by all of them.
func deliver(t *testing.T, o *local.Options, names ...string) {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "..", "events")
	if len(names) == 0 {
		events, err := local.ReadEvents(dir)
		if err != nil || len(events) < 16 {
			t.Fatalf("%d sample events: %v", len(events), err)
		}
		o.ESM.Events = events
	}
	for _, name := range names {
		events, err := local.ReadEvents(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		o.ESM.Events = append(o.ESM.Events, events...)
	}
}

func prove(t *testing.T, o local.Options) *local.Report {
	t.Helper()
	report := mustRun(t, o)
	return report
}

func TestSampleEvents(t *testing.T) {
	t.Parallel()
	o, s := ledger(t)
	deliver(t, &o)
	report := prove(t, o)
	if !report.Verified.OK() {
		t.Fatalf("problems: %q", report.Verified.Problems)
	}
	// The records of the samples that must become dead letters. events/README.md gives the reasons.
	want := []string{
		"payments-0@2201", "payments-0@4401", "payments-0@4501", "payments-0@4600", "payments-0@5400",
		"payments-0@5500", "payments-0@5600",
		"payments-0@6000", "payments-0@6100", "payments-0@6200", "payments-0@6300", "payments-0@6400",
		"payments-0@7001", "payments-0@7200", "payments-0@7300", "payments-0@7401",
	}
	var got []string
	for i := range report.Letters {
		got = append(got, report.Letters[i].Source())
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("dead letters:\n got %v\nwant %v", got, want)
	}
	if died := strings.Count(s.String(), "process-dies.json: 3 records, failed: Runtime.ExitError") +
		strings.Count(s.String(), "process-dies.json: 2 records, failed: Runtime.ExitError"); died != 5 ||
		report.Failed != 5 {
		t.Errorf("%d processes died, %d invocations failed; want the 5 attempts of process-dies:\n%s", died,
			report.Failed, s)
	}
	for _, want := range []string{"40 of 40 events done with", "everything is done with after",
		"exactly once each, to the cent"} {
		if !strings.Contains(report.Text(), want) {
			t.Errorf("no %q in the closing table:\n%s", want, report.Text())
		}
	}
	if !strings.Contains(s.String(), `one-record.json: 1 record, answered {"batchItemFailures":[]}`) {
		t.Errorf("the function's answers are not shown:\n%s", s)
	}
}

// Settled records are not delivered again.
func TestOnlyUnsettledRecordsOfAnEventAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	o, _ := ledger(t)
	deliver(t, &o, "handler-panics")
	if r := prove(t, o); !r.Verified.OK() || r.Invocations != 5 || r.Delivered != 6 {
		t.Errorf("%d records in %d deliveries, want 2 and 4 times 1; problems: %q", r.Delivered,
			r.Invocations, r.Verified.Problems)
	}
}

// Without partial responses the invocation fails, and the whole event is delivered again.
func TestWholeEventIsDeliveredAgainWithoutPartialResponses(t *testing.T) {
	t.Parallel()
	o, _ := ledger(t, "IDEMSK_HASH_KEYS=true", "IDEMSK_NAMESPACE=shop")
	o.ESM.FunctionResponseTypes = nil
	deliver(t, &o, "fails-twice-then-succeeds", "poison-record")
	if r := prove(t, o); !r.Verified.OK() || r.Invocations != 4 || r.Failed != 2 {
		t.Errorf("%d invocations, %d failed; want 3 and 1, of which 2; problems: %q", r.Invocations, r.Failed,
			r.Verified.Problems)
	}
}

// The verification fails if records are given up, and names them.
func TestVerificationNamesRecordsGivenUp(t *testing.T) {
	t.Parallel()
	o, _ := ledger(t, "IDEMSK_DEAD_LETTER_QUEUE_URL=", "IDEMSK_BATCHING=off")
	o.ESM.MaximumRetryAttempts = 2
	deliver(t, &o, "always-fails-retriable")
	text := strings.Join(prove(t, o).Verified.Problems, "\n")
	for _, want := range []string{
		"2 records lost: given up, no on-failure destination",
		"record payments-0@7200 is lost or unsettled: its key is STARTED, want FAILED",
		"record payments-0@7201 is lost or unsettled: there is no item of its key",
		"the ledger is wrong: acc-1/EUR has 0, want 1350",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the problems do not contain %q:\n%s", want, text)
		}
	}
}

// A file that is not an event is delivered once and unchanged, and the answer is shown.
func TestFileThatIsNoEvent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "order.json")
	if err := os.WriteFile(path, []byte(`{"Records":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o, s := ledger(t)
	o.Prove = false
	var err error
	if o.ESM.Events, err = local.ReadEvents(dir); err != nil {
		t.Fatal(err)
	}
	if r := prove(t, o); r.Invocations != 1 || r.Failed != 1 {
		t.Errorf("%+v; want one invocation, which fails", r.Counts)
	}
	for _, want := range []string{`order.json is no event of a Kafka event source mapping: it has no "records": it is delivered once, unchanged.`, "order.json: 0 records, failed: "} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the output does not contain %s:\n%s", want, s)
		}
	}
	if _, err := local.ReadEvents(t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "there is no *.json in") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := local.ReadEvents(path + ".not"); err == nil ||
		!strings.Contains(err.Error(), "order.json.not") {
		t.Errorf("a missing file: %v", err)
	}
}

// With one payment at a time, a kill before an effect repeats no booking, because there was none. In plain
// mode a kill after an effect repeats the booking, and the audit names the kill. In atomic mode it repeats
// none.
func TestKillsAtEffects(t *testing.T) {
	t.Parallel()
	one := []string{"IDEMSK_CONCURRENCY=1", "IDEMSK_BATCHING=off", "IDEMSK_MAX_ATTEMPTS=25"}
	for _, test := range []struct {
		at, ledger string
		again      bool
	}{
		{local.KillBeforeEffect, "plain", false}, {local.KillAfterEffect, "plain", true},
		{local.KillBeforeEffect, "atomic", false}, {local.KillAfterEffect, "atomic", false},
	} {
		t.Run(test.at+" "+test.ledger, func(t *testing.T) {
			t.Parallel()
			o, _ := ledger(t, append(one, "IDEMSK_LEDGER="+test.ledger)...)
			o.Produce, o.ESM.BatchSize, o.ESM.RetryDelay = 60, 10, 100*time.Millisecond
			o.Faults = local.Faults{Kill: 0.3, KillAt: test.at}
			report := prove(t, o)
			if !report.Verified.OK() || len(report.Kills) == 0 {
				t.Fatalf("%d kills, problems: %q", len(report.Kills), report.Verified.Problems)
			}
			if want := map[bool]int{true: len(report.Kills)}[test.again]; len(
				report.Verified.Repeats) != want {
				t.Errorf("%d kills repeated %d bookings; want %d", len(report.Kills),
					len(report.Verified.Repeats), want)
			}
		})
	}
}
