//go:build servers

package adapters_test

import (
	"context"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// startPayments starts a server with the tables of payments, and returns its URL.
func startPayments(t *testing.T) string {
	t.Helper()
	url := testkit.Run(t, pgserver.Start, pgserver.Config{}).URL()
	pool, err := pgstore.NewPool(url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pgstore.Migrate(t.Context(), pool, pgstore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pgoutbox.Migrate(t.Context(), pool, pgoutbox.DefaultTable); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `CREATE TABLE payments (payment jsonb, receipt text)`); err != nil {
		t.Fatal(err)
	}
	return url
}

// Whatever fails, the bank has charged a payment once, and there are one row and one event. docs/effects.md
// shows the code.
func TestPaymentHasItsThreeEffectsOnce(t *testing.T) {
	if _, code, _ := strings.Cut(readFile(t, "payments.go"), "\nfunc (b Bank)"); !strings.Contains(
		readFile(t, "../../docs/effects.md"), "```go\nfunc (b Bank)"+code+"```") {
		t.Error("docs/effects.md does not show the code of payments.go")
	}
	database := startPayments(t)
	dies := func(step string) func(*testing.T, string, string) {
		return func(t *testing.T, id, bankURL string) {
			processDies(t, "payments", database, bankURL, step+"/"+id)
		}
	}
	for id, tc := range map[string]struct {
		fail     func(t *testing.T, id, bankURL string) // first
		refusals int                                    // of the bank, after it has charged
		loses    bool                                   // the reply of the commit
		requests int                                    // to the bank
	}{
		"nothing fails":                   {requests: 1},
		"the bank's answer is an error":   {refusals: 1, requests: 2},
		"the process dies after the call": {fail: dies(theCall), requests: 2},
		"after the row":                   {fail: dies(theRow), requests: 2},
		"after the event":                 {fail: dies(theEvent), requests: 2},
		"the commit's reply is lost":      {loses: true, requests: 1},
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			b, bankURL := newBank(t, tc.refusals)
			if tc.fail != nil {
				tc.fail(t, id, bankURL)
			}
			proxy, url := faultproxy.StartURL(t, database)
			events := 0
			p, pool, err := newPayments(bankURL, url, after{theEvent, func(context.Context) {
				if events++; tc.loses && events == 2 { // the next reply is that of the completion, with the commit
					proxy.NextReply(faultproxy.Reset)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			count := func(query string) (n int) {
				t.Helper()
				if err := pool.QueryRow(t.Context(), query, id).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			rows := func() int { return count(`SELECT count(*) FROM payments WHERE payment->>'paymentId' = $1`) }
			deliver := func(id string) { p.Run(t.Context(), "cluster", [][]kafka.Record{{paymentRecord(id)}}) }
			deliver("before: " + id) // prepares the statements of the connection
			until(t, "the payment is done", func() bool { deliver(id); return rows() > 0 })
			deliver(id) // a duplicate
			if tc.loses && pool.Stat().NewConnsCount() < 2 {
				t.Error("no connection was lost with the reply")
			}
			b.want(t, tc.requests, "ledger#payments#"+id, string(paymentRecord(id).Value))
			if n := rows(); n != 1 {
				t.Errorf("%d rows", n)
			}
			if n := count(`SELECT count(*) FROM outbox WHERE convert_from(aggregateid, 'UTF8') = $1`); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}
