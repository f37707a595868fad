package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// events is a folder with some of the sample events.
func events(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		payload, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "events", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), payload, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReplay(t *testing.T) {
	t.Parallel()
	dir := events(t, "duplicate-across-batches-1", "duplicate-across-batches-2", "poison-record")
	log := filepath.Join(t.TempDir(), "function.log")
	r := idemsk(t, "replay", "--function", handler, "--records", "200", "--batch-size", "50", "--kills", "1", "--seed", "3", "--compare", "--json",
		"--log", log, dir)
	var report struct {
		OK            bool
		Seed          uint64
		Files         int
		WithIdemsk    struct{ Killed int }
		WithoutIdemsk struct{ Off []struct{ Account string } }
	}
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	if !report.OK || report.Seed != 3 || report.Files != 3 || report.WithIdemsk.Killed != 1 || len(report.WithoutIdemsk.Off) == 0 {
		t.Errorf("report %+v", report)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"msg":"batch"`) || strings.Contains(r.err, "log") {
		t.Errorf("the function's log: %v; said on stderr: %q", err, r.err)
	}
}

func TestReplayOfABrokenFunction(t *testing.T) {
	t.Parallel()
	r := idemsk(t, "replay", "--function", handler, "--records", "100", "--batch-size", "50", "--kills", "0", "--duplicates", "1",
		"--env", "IDEMSK_STORE=none")
	if r.code != 1 || !strings.Contains(r.out, "the ledger is off: account-01/EUR has ") || !strings.Contains(r.out, "Not proven") {
		t.Errorf("%+v; want exit 1 and the accounts named", r)
	}
	_, rest, _ := strings.Cut(r.err, "The function's log is in ")
	path, _, _ := strings.Cut(rest, ";")
	if err := os.Remove(path); err != nil {
		t.Errorf("the log of a run that failed is not kept: %v\n%s", err, r.err)
	}
}

func TestReplayOfWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "order.json")
	if err := os.WriteFile(path, []byte(`{"Records":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{path}, "order.json is no event"},
		{[]string{path + ".not"}, "order.json.not"},
		{[]string{t.TempDir()}, "there is no *.json in"},
		{[]string{"--function", "./nowhere", "--records", "1"}, "there is no file"},
	} {
		args := append([]string{"replay", "--function", handler, "--kills", "0"}, test.args...)
		if r := idemsk(t, args...); r.code != 1 || !strings.Contains(r.err, test.says) {
			t.Errorf("%v: %+v; want exit 1 and %q", test.args, r, test.says)
		}
	}
}
