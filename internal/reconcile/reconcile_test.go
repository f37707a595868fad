package reconcile_test

import (
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/reconcile"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// filled returns a store with a key in each state: done, early (completed ten hours before), failed, dead,
// flying, expired.
func filled(t *testing.T) *memstore.Store {
	t.Helper()
	clock := now
	s := memstore.New(memstore.Config{Clock: func() time.Time { return clock }})
	add := func(key string, age time.Duration, op store.SettleOp) {
		clock = now.Add(-age)
		entry := s.Claim(t.Context(), []store.ClaimRequest{{Key: key, Owner: "o", Lease: time.Minute,
			Retention: 24 * time.Hour}})[0].Entry
		set := store.Settlement{Op: op, Key: key, Token: entry.Token, Owner: "o", Retention: 24 * time.Hour,
			Failure: &store.Failure{Code: "error"}}
		if op != 0 {
			if errs := s.Settle(t.Context(), []store.Settlement{set}); errs != nil {
				t.Fatal(errs)
			}
		}
		clock = now
	}
	add("ledger#payments#done", time.Hour, store.OpComplete)
	add("ledger#refunds#done", time.Hour, store.OpComplete) // another topic's
	add("ledger#payments#early", 10*time.Hour, store.OpComplete)
	add("ledger#payments#failed", time.Hour, store.OpFail)
	add("ledger#payments#expired", 48*time.Hour, store.OpFail)
	add("ledger#payments#dead", time.Hour, 0)
	add("ledger#payments#flying", time.Second, 0)
	hashed, err := store.Key("ledger#payments#secret", true)
	if err != nil {
		t.Fatal(err)
	}
	add(hashed, time.Hour, store.OpComplete)
	return s
}

func keys[T any](list []T, key func(T) string) string {
	var names []string
	for _, v := range list {
		names = append(names, key(v))
	}
	return strings.Join(names, " ")
}

func record(r store.Entry) string { return strings.TrimPrefix(r.Key, "ledger#payments#") }

func row(r reconcile.Row) string { return fmt.Sprintf("%s@%d", r.Key, r.Line) }

func run(t *testing.T, name, export string, o reconcile.Options) *reconcile.Report {
	t.Helper()
	var rows iter.Seq2[reconcile.Row, error]
	if name != "" {
		rows = reconcile.ReadExport(name, strings.NewReader(export), "id")
	}
	r, err := reconcile.Run(t.Context(), filled(t), rows, o, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q; want %q", what, got, want)
	}
}

func TestRunWithoutAnExport(t *testing.T) {
	r := run(t, "", "", reconcile.Options{})
	equal(t, "overdue", keys(r.Overdue, record), "dead")
	equal(t, "failed", keys(r.Failed, record), "failed")
	if r.Differences() > 0 || r.OnlyInStore != nil {
		t.Errorf("it differs from nothing: %+v", r)
	}
}

func TestRunWithAnExport(t *testing.T) {
	for name, export := range map[string]string{
		"export.csv": "amount,id\n1,done\n2,ghost\n3,done\n4,failed\n5,secret\n",
		"bom.CSV":    "\ufeffid,amount\ndone,1\nghost,2\ndone,3\nfailed,4\nsecret,5\n",
		"export.jsonl": `{"id":"done"}` + "\n\n" + `{"id":"ghost","x":[1]}` + "\n" + `{"id":"done"}` + "\n" +
			`{"id":"failed"}` + "\n" + `{"id":"secret"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, name, export, reconcile.Options{Prefix: "ledger#payments#"})
			ghost, twice := "ghost@3", "done@4"
			if strings.HasSuffix(name, "jsonl") {
				twice = "done@4" // the empty line counts
			}
			equal(t, "only in the store", keys(r.OnlyInStore, record), "early")
			equal(t, "only in the export", keys(r.OnlyInExport, row), ghost)
			equal(t, "twice", keys(r.Twice, row), twice)
			equal(t, "unsettled", keys(r.Unsettled,
				func(u reconcile.Unsettled) string { return u.Row.Key + " " + string(u.Record.Status) }),
				"failed FAILED")
			equal(t, "counts", fmt.Sprint(r.Records, r.Rows, r.Matched), "8 5 2")
			if r.Differences() != 4 {
				t.Error("it has other differences than 4")
			}
		})
	}
}

func TestBoundsOfTheCompletionTime(t *testing.T) {
	const export = "id\ndone\nsecret\n"
	if r := run(t, "e.csv", export, reconcile.Options{Prefix: "ledger#payments#",
		From: now.Add(-2 * time.Hour)}); r.Differences() > 0 {
		t.Errorf("what completed before the export begins is missed: %+v", r)
	}
	if r := run(t, "e.csv", "id\nearly\n",
		reconcile.Options{Prefix: "ledger#payments#", To: now.Add(-2 * time.Hour)}); r.Differences() > 0 {
		t.Errorf("what completed after the export ends is missed: %+v", r)
	}
	if r := run(t, "e.csv", "id\nledger#payments#done\n", reconcile.Options{}); r.Matched != 1 {
		t.Errorf("stored keys are not found: %+v", r)
	}
}

// Spreadsheets and some databases write a byte order mark; a key may be a number, whose text is that of the
// record.
func TestExportsOfOtherPrograms(t *testing.T) {
	for _, tc := range []struct{ name, export, want string }{
		{"e.csv", "\ufeffid,amount\r\na,1\r\n", "a"},
		{"e.csv", "\ufeff\"id\",\"amount\"\r\n\"a\",\"1\"\r\n", "a"},
		{"e.jsonl", "\ufeff{\"id\":\"a\"}\n", "a"},
		{"e.jsonl", "{\"id\":12345678901234567890.10}", "12345678901234567890.10"},
	} {
		for row, err := range reconcile.ReadExport(tc.name, strings.NewReader(tc.export), "id") {
			if err != nil || row.Key != tc.want {
				t.Errorf("%s %q: %q, %v; want %q", tc.name, tc.export, row.Key, err, tc.want)
			}
		}
	}
}

func TestInvalidExports(t *testing.T) {
	for _, tc := range []struct{ name, export, want string }{
		{"e.txt", "", "e.txt: its name must end in .csv or .jsonl"},
		{"e.csv", "", "e.csv: it has no header line"},
		{"e.csv", "key,amount\n", `e.csv: it has no column "id"; it has ["key" "amount"]`},
		{"e.csv", "id,amount\na,1\nb\n", "e.csv: record on line 3: wrong number of fields"},
		{"e.csv", "id,amount\n\"a\nb\",1\n,2\n", `e.csv: line 4 has no "id"`},
		{"e.jsonl", "{\"id\":\"a\"}\n[]\n", "e.jsonl: line 2 is not a JSON object"},
		{"e.jsonl", "{\"id\":[7]}\n", `e.jsonl: line 1: "id" is neither a string nor a number`},
		{"e.jsonl", "{\"id\":true}\n", `e.jsonl: line 1: "id" is neither a string nor a number`},
		{"e.jsonl", "{\"id\":null}\n", `e.jsonl: line 1 has no "id"`},
		{"e.jsonl", "{}\n", `e.jsonl: line 1 has no "id"`},
		{"e.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b", "e.jsonl: line 2 is not a JSON object"},
		{"e.csv", "id\n\"a\"\n\"b", "e.csv: parse error on line 3"},
		{"e.jsonl", strings.Repeat(" ", 17<<20), "e.jsonl: line 1: bufio.Scanner: token too long"},
	} {
		_, err := reconcile.Run(t.Context(), memstore.New(memstore.Config{}),
			reconcile.ReadExport(tc.name, strings.NewReader(tc.export), "id"), reconcile.Options{}, now)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %q: %v; want %q in it", tc.name, tc.export, err, tc.want)
		}
	}
}
