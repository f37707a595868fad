package replay_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/replay"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("not as in %s (go test ./cmd/... -update writes it anew):\n%s", path, text)
	}
}

// report is one that went well.
func report() *replay.Report {
	return &replay.Report{
		OK: true, Proof: "10,175 records, delivered 17,569 times to 9 processes of which 3 were killed just before a payment, booked " +
			"9,948 payments exactly once each, to the cent.",
		Seed: 42, Function: "bootstrap", Store: "the in-process DynamoDB", Files: 40, Records: 10_000, Partitions: 6, BatchSize: 500, Batching: "off",
		Payments: 9948, Places: 10_175, Expected: map[string]int64{"EUR": 488729421},
		With: replay.Pass{
			Invocations: 116, Delivered: 17_569, Redelivered: 3000, ExecutedUnreported: 55, ColdStarts: 9, Killed: 3, Crashes: 5,
			Outcomes: metrics.Outcomes{
				Executed: 9893, Replayed: 4914, ReplayedFailed: 4, Duplicates: 266, DeadLettered: 22, Retried: 54, NotStarted: 2000, BatchSize: 17_153,
			},
			RecordsPerSecond: 1234.5, RequestsPerFresh: 2, RequestsPerDuplicate: 1, Ledger: map[string]int64{"EUR": 488729421},
			DeadLetters: []replay.DeadLetter{
				{Source: "payments-0@2201", Code: "permanent", Cause: "key \"a\x1b[31m\" was used before\n" + strings.Repeat("x", 200)},
				{Source: "payments-0@7200", Code: "exhausted", Cause: "attempts exhausted"},
			},
		},
		Without: &replay.Pass{
			Invocations: 130, Delivered: 17_596, Redelivered: 3000, ColdStarts: 14, Killed: 3, Crashes: 10, ExecutedUnreported: 98,
			Outcomes:         metrics.Outcomes{Unprotected: 14_800, Retried: 66, DeadLettered: 18},
			RecordsPerSecond: 2000, Ledger: map[string]int64{"EUR": 736436647, "USD": 7},
			Off:     []proof.Difference{{Account: "acc-1/EUR", Expected: 1, Found: 247707227}, {Account: "acc-1/USD", Found: 7}},
			GivenUp: []string{"events/process-dies.json: given up after 10 deliveries"},
		},
	}
}

func TestTextOfAGoodRun(t *testing.T) {
	t.Parallel()
	golden(t, "good", report().Text())
}

// What has no stream has no rate.
func TestTextOfFilesAlone(t *testing.T) {
	t.Parallel()
	r := report()
	r.Records = 0
	if text := r.Text(); strings.Contains(text, "records a second") || !strings.Contains(text, "requests for a duplicate, batching off") {
		t.Error(text)
	}
}

func TestTextOfABadRun(t *testing.T) {
	t.Parallel()
	r := report()
	r.OK, r.Without, r.With.Off = false, nil, []proof.Difference{{Account: "acc-1/EUR", Expected: 500, Found: 499}}
	r.With.Ledger = map[string]int64{"EUR": 488729420}
	r.Proof = "Not proven: 12 things are not as they must be."
	for range 12 {
		r.Problems = append(r.Problems, "the ledger is off: acc-1/EUR\x1b has 499, must have 500 (minor units)")
	}
	golden(t, "bad", r.Text())
}
