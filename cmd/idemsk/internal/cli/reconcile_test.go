package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func export(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	endpoint, client := newDynamoDB(t)
	fill(t, client)
	r := idemsk(t, "reconcile", "--endpoint-url", endpoint)
	if r.code != 0 || r.err != "" {
		t.Errorf("%+v; want exit 0", r)
	}
	golden(t, "reconcile", scrub(r.out))

	path := export(t, "bookings.csv", "id\ndone\nghost\x1b\nflying\ndone\nsecret\n")
	r = idemsk(t, "reconcile", "--endpoint-url", endpoint, "--against", path, "--field", "id", "--namespace", "ledger", "--topic", "payments")
	if r.code != 1 || r.err != "" {
		t.Errorf("%+v; want exit 1, and nothing but the report", r)
	}
	golden(t, "reconcile-against", strings.ReplaceAll(scrub(r.out), path, "bookings.csv"))

	path = export(t, "bookings.jsonl", `{"id":"ledger#payments#done"}`+"\n"+`{"id":"ledger#payments#secret"}`)
	r = idemsk(t, "reconcile", "--endpoint-url", endpoint, "--against", path, "--field", "id", "--from", "90m", "--json")
	var report struct {
		Overdue, Failed, OnlyInStore, OnlyInExport []any
		Matched                                    int
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != 0 || report.Matched != 2 || report.OnlyInStore != nil || len(report.Overdue) != 1 {
		t.Errorf("%+v: %v", r, err)
	}
}

func TestReconcileAgainstNothing(t *testing.T) {
	t.Parallel()
	endpoint, client := newDynamoDB(t)
	fill(t, client)
	for path, says := range map[string]string{
		filepath.Join(t.TempDir(), "nowhere.csv"): "no such file",
		export(t, "b.csv", "a,b\n"):               `no column "id"`,
		export(t, "b.xls", ""):                    ".csv or .jsonl",
	} {
		r := idemsk(t, "reconcile", "--endpoint-url", endpoint, "--against", path, "--field", "id")
		if r.code != 1 || r.out != "" || !strings.Contains(r.err, says) {
			t.Errorf("%s: %+v; want exit 1 and %q", path, r, says)
		}
	}
}
