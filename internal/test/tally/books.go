package tally

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// Credit is a booking and the value of its event.
type Credit struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Amount    int64  `json:"amount"` // in minor units
	Currency  string `json:"currency"`
}

// LedgerID is the account's ID in the ledger of the example function.
func (c *Credit) LedgerID() string { return c.Account + "/" + c.Currency }

// Books are the records of a second consumer. They contain each credit of each call, so that duplicates are
// visible.
type Books struct {
	mu      sync.Mutex
	entries map[string][]Credit // by account, in the order in which they came
}

// NewBooks returns empty books.
func NewBooks() *Books { return &Books{entries: make(map[string][]Credit)} }

// manyAttempts is enough for a handler with injected faults.
const manyAttempts = 1000

// NewConsumer returns a consumer whose handler may fail often.
func NewConsumer(t testing.TB, st store.Store, key kafka.KeyFunc, handler msk.HandlerFunc) *msk.Consumer {
	t.Helper()
	engine, err := idem.New(st, idem.Config{MaxAttempts: manyAttempts})
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := msk.New(engine, handler, eventsource.Config{Records: kafka.Config{
		Namespace: "books", Key: key, Concurrency: 8, Logger: slog.New(slog.DiscardHandler),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return consumer
}

// Handler returns the handler that keeps the books.
func (b *Books) Handler(faults *Faults) msk.HandlerFunc {
	return msk.JSON(func(_ context.Context, c Credit, r msk.Record) (struct{}, error) {
		if string(r.Key) != c.Account {
			return struct{}{}, idem.Permanent(
				fmt.Errorf("payment %s of %s has the key %q", c.PaymentID, c.Account, r.Key))
		}
		if err := faults.Fail(c.PaymentID); err != nil {
			return struct{}{}, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.entries[c.Account] = append(b.entries[c.Account], c)
		return struct{}{}, nil
	})
}

// WantInOrder checks that the books have exactly the produced credits of each account, each once and in
// order.
func (b *Books) WantInOrder(t testing.TB, made map[string][]Credit) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	wantEqual(t, b.entries, made)
}

// shown is the maximum number of wrong credits in a message.
const shown = 5

func wantEqual(t testing.TB, got, want map[string][]Credit) {
	t.Helper()
	for account, credits := range want {
		if has := got[account]; !slices.Equal(has, credits) {
			at := 0
			for at < min(len(has), len(credits)) && has[at] == credits[at] {
				at++
			}
			t.Errorf("of %s the second consumer has counted %d events, want %d, each once: from number %d on they are %v, want %v", account,
				len(has), len(credits), at, has[at:min(at+shown, len(has))],
				credits[at:min(at+shown, len(credits))])
		}
	}
	for account, credits := range got {
		if _, there := want[account]; !there {
			t.Errorf("of %s the second consumer has counted %v, want none", account, credits)
		}
	}
}

// WantBalances checks that the sums of the books equal a ledger's balances.
func (b *Books) WantBalances(t testing.TB, balances map[string]int64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if counted := Sums(b.entries); !maps.Equal(counted, balances) {
		t.Errorf("the second consumer has counted %v, the ledger has %v", counted, balances)
	}
}

// Sums returns the sums of credits by account, as in the ledger.
func Sums(credits map[string][]Credit) map[string]int64 {
	sums := make(map[string]int64)
	for _, all := range credits {
		for i := range all {
			sums[all[i].LedgerID()] += all[i].Amount
		}
	}
	return sums
}
