//go:build rest

package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
)

// ledger is the service to which functions send payments. It refuses one payment in twenty, every other of them
// always.
type ledger struct {
	*testing.T
	url      string
	ordered  bool // the payments of an account must arrive in the order in which they were sent
	attempts int  // the least number of tries of a payment that has become a dead letter
	several  bool // one more try may have been in a call of several records that failed as a whole

	mu      sync.Mutex
	entries map[string]*entry // by payment ID
}

// entry is a payment in a ledger.
type entry struct {
	id            string
	before        *entry // the one before it of the same account
	poison        bool   // it is always refused
	refusals      int    // how often it is refused at first
	tries, booked int
}

// newLedger starts the ledger of a run.
func newLedger(t *testing.T, o *local.Options) *ledger {
	t.Helper()
	l := &ledger{T: t, ordered: o.Queue != standard, entries: make(map[string]*entry)}
	latest := make(map[string]*entry) // by account
	c := payments.Config{Records: o.Produce, Seed: o.Seed, Copies: o.Copies}
	for m, err := range c.Messages(topic) {
		if err != nil {
			t.Fatal(err)
		}
		p := payment(t, m.Value)
		if l.entries[p.PaymentID] != nil { // the producer sent it twice
			continue
		}
		e := &entry{id: p.PaymentID, before: latest[p.Account]}
		if n := len(l.entries); n%20 == 19 {
			e.refusals, e.poison = 1+n/20%3, n/20%2 == 1
		}
		l.entries[e.id], latest[p.Account] = e, e
	}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

// ServeHTTP books a payment, or refuses it.
func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the process that sends it was killed in the middle of it
	}
	var p payments.Payment
	err = json.Unmarshal(body, &p)
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[p.PaymentID]
	if err != nil || e == nil {
		l.Errorf("a payment that was not sent: %+v, %v", p, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for b := e.before; l.ordered && b != nil; b = b.before {
		if b.booked == 0 && (!b.poison || b.tries < l.attempts) {
			l.Errorf("%s arrives before %s is settled", e.id, b.id)
		}
	}
	if e.tries++; e.poison || e.tries <= e.refusals {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	e.booked++
}

// check checks that each payment is booked, at most a number of times, or has a dead letter if it is always refused.
func (l *ledger) check(report *local.Report, most int) {
	l.Helper()
	var dead []string
	for i := range report.Letters {
		dead = append(dead, payment(l.T, report.Letters[i].Value).PaymentID)
	}
	tries := attempts
	if l.several {
		tries++
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	poison, again := 0, 0
	for _, e := range l.entries {
		if e.poison {
			poison++
		}
		if e.booked > 1 {
			again++
		}
		switch {
		case e.poison != slices.Contains(dead, e.id):
			l.Errorf("%s has a dead letter: %t; it is always refused: %t", e.id, !e.poison, e.poison)
		case !e.poison && (e.booked < 1 || e.booked > most):
			l.Errorf("%s was booked %d times, after %d tries", e.id, e.booked, e.tries)
		case e.poison && (e.tries < l.attempts || e.tries > tries):
			l.Errorf("%s, which is always refused, was tried %d times", e.id, e.tries)
		}
	}
	l.Logf("%d payments were booked again", again)
	if len(dead) != poison || report.Messages != poison {
		l.Errorf("%d dead letters (%d messages) of %d payments", len(dead), report.Messages, poison)
	}
}

// attempts is the default of IDEMSK_MAX_ATTEMPTS.
const attempts = 5
