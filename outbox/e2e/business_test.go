package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/lambda/msk"
	"github.com/idemsk/idemsk/outbox"
)

// The topics, and how many accounts the payments are of.
const (
	payments = "payments"
	credited = "credited"
	accounts = 40
)

// payment is what is booked, and what the event says of it.
type payment struct {
	PaymentID string `json:"paymentId"`
	Account   string `json:"account"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
}

// ledgerID is the account's name in the ledger, as the example function has it.
func (p *payment) ledgerID() string { return p.Account + "/" + p.Currency }

// event tells of a booked payment.
func (p *payment) event() (outbox.Event, error) {
	value, err := json.Marshal(p)
	return outbox.Event{Topic: credited, Key: []byte(p.Account), Value: value}, err
}

// producePayments makes payments and returns them, for each account in order.
func producePayments(t *testing.T, brokers []string, n int) map[string][]payment {
	t.Helper()
	made := make(map[string][]payment)
	var records []*kgo.Record
	for i := range n {
		p := payment{PaymentID: fmt.Sprint("p-", i), Account: fmt.Sprint("acc-", rand.IntN(accounts)), Amount: rand.Int64N(1000) + 1, Currency: "EUR"}
		made[p.Account] = append(made[p.Account], p)
		value, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &kgo.Record{Topic: payments, Key: []byte(p.Account), Value: value})
	}
	if err := newClient(t, brokers).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return made
}

var errUndone = errors.New("the handler fails after it has booked and published")

// mayFail fails now and then: what a handler has done so far is to be undone then.
func mayFail() error {
	if rand.IntN(50) == 0 {
		return errUndone
	}
	return nil
}

func newConsumer(t *testing.T, store idem.Store, cfg idem.Config, key msk.KeyFunc, handler msk.Handler) *msk.Consumer {
	t.Helper()
	cfg.MaxAttempts = 1000
	engine, err := idem.New(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := msk.New(engine, handler, msk.Config{Key: key, Concurrency: 8, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return consumer
}

func paymentKey(t *testing.T) msk.KeyFunc {
	t.Helper()
	key, err := msk.JSONKey("$.paymentId")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// books are what the second consumer keeps: it adds up whatever it is called with, so that to be called twice can be seen.
type books struct {
	mu      sync.Mutex
	entries map[string][]payment // by account, in the order in which they came
	n       int
}

func newBooks() *books { return &books{entries: make(map[string][]payment)} }

// consumer returns the second consumer: its key is the event's ID.
func (b *books) consumer(t *testing.T) *msk.Consumer {
	t.Helper()
	return newConsumer(t, memstore.New(memstore.Config{}), idem.Config{}, msk.HeaderKey(outbox.IDHeader),
		msk.JSON(func(_ context.Context, p payment, r msk.Record) (struct{}, error) {
			if string(r.Key) != p.Account {
				return struct{}{}, idem.Permanent(fmt.Errorf("payment %s of %s has the key %q", p.PaymentID, p.Account, r.Key))
			}
			if err := mayFail(); err != nil {
				return struct{}{}, err
			}
			b.mu.Lock()
			defer b.mu.Unlock()
			b.entries[p.Account] = append(b.entries[p.Account], p)
			b.n++
			return struct{}{}, nil
		}))
}

func (b *books) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}

// verify holds the books against what was produced, in order, and against the ledger's balances.
func (b *books) verify(t *testing.T, made map[string][]payment, balances map[string]int64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	want := make(map[string]int64)
	counted := make(map[string]int64)
	for account, all := range made {
		if got := b.entries[account]; !slices.Equal(got, all) {
			t.Errorf("of %s the second consumer has counted %d events, want %d, each once and in order:\n%v\nwant\n%v", account, len(got), len(all), got, all)
		}
		for _, p := range all {
			want[p.ledgerID()] += p.Amount
		}
	}
	for _, all := range b.entries {
		for _, p := range all {
			counted[p.ledgerID()] += p.Amount
		}
	}
	if !maps.Equal(balances, want) {
		t.Errorf("the ledger has %v, want %v", balances, want)
	}
	if !maps.Equal(counted, balances) {
		t.Errorf("the second consumer has counted %v, the ledger has %v", counted, balances)
	}
}
