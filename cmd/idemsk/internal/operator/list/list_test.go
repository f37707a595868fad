package list_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

func TestList(t *testing.T) {
	t.Parallel()
	endpoint, client := clitest.NewDynamoDB(t)
	clitest.Fill(t, client)
	r := clitest.Run(t, "list", "--endpoint-url", endpoint)
	for _, says := range []string{"scanning the table idemsk", "read unit", "8 entries\n"} {
		if r.Code != 0 || !strings.Contains(r.Err, says) {
			t.Errorf("list: exit %d, %q; want 0, and %q said", r.Code, r.Err, says)
		}
	}
	clitest.Golden(t, "list", sortedBody(r.Out))
	for args, want := range map[string]string{
		"--status FAILED": "ledger@payments-0@6200@1767231800000",
		"--overdue":       "ledger#payments#dead",
		"--status STARTED --before 30s --overdue": "ledger#payments#dead",
		"--before 49h":  "ledger@payments-0@6200@1767231800000",
		"--key-has fly": "ledger#payments#flying",
	} {
		r := clitest.Run(t, append([]string{"list", "--json", "--endpoint-url", endpoint},
			strings.Fields(args)...)...)
		var entry struct{ IdempotencyKey string }
		if err := json.Unmarshal([]byte(r.Out), &entry); err != nil || entry.IdempotencyKey != want ||
			r.Code != 0 {
			t.Errorf("list %s: %+v (%v); want %s alone", args, r, err, want)
		}
	}
	r = clitest.Run(t, "list", "--limit", "3", "--endpoint-url", endpoint)
	if strings.Count(r.Out, "\n") != 4 || !strings.Contains(r.Err, "there are more") {
		t.Errorf("list --limit 3: %+v", r)
	}
	if r := clitest.Run(t, "list", "--key-has", "missing", "--endpoint-url", endpoint); r.Code != 0 ||
		r.Out != "" || !strings.Contains(r.Err, "0 entries") {
		t.Errorf("list of nothing: %+v", r)
	}
	if r := clitest.Run(t, "list", "--table", "missing", "--endpoint-url", endpoint); r.Code != 1 ||
		!strings.Contains(r.Err, "missing") {
		t.Errorf("list of no table: %+v", r)
	}
}

// sortedBody sorts the rows of a table, because a scan has no order.
func sortedBody(text string) string {
	lines := strings.SplitAfter(text, "\n")
	head, body := lines[0], lines[1:]
	for i := range body {
		for j := i + 1; j < len(body); j++ {
			if body[j] < body[i] && body[j] != "" {
				body[i], body[j] = body[j], body[i]
			}
		}
	}
	return head + strings.Join(body, "")
}
