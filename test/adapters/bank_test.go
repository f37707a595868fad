package adapters_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/test/adapters"
)

// bank charges each idempotency key once. Its first answers for a payment are errors, though it has charged.
type bank struct {
	refusals int // how many errors

	mu       sync.Mutex
	charges  map[string]string // by key, the payment
	requests map[string]int    // by payment
}

func newBank(t *testing.T, refusals int) (b *bank, url string) {
	b = &bank{refusals: refusals, charges: make(map[string]string), requests: make(map[string]int)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charges[r.Header.Get("Idempotency-Key")] = string(body)
	if b.requests[string(body)]++; b.requests[string(body)] <= b.refusals {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, "charged")
}

// want checks how often the bank was asked for a payment, and that it has charged it once, under a key.
func (b *bank) want(t *testing.T, requests int, key, payment string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for k, charged := range b.charges {
		if charged == payment {
			keys = append(keys, k)
		}
	}
	if b.requests[payment] != requests || !slices.Equal(keys, []string{key}) {
		t.Errorf("%d requests, charges under %q; want %d, and one under %s", b.requests[payment], keys, requests,
			key)
	}
}

const payment = `{"paymentId":"pay-42","amount":1250}`

// A repeated attempt charges once, and docs/effects.md shows the code.
func TestChargeIsRepeatedUnderItsKey(t *testing.T) {
	if _, code, _ := strings.Cut(readFile(t, "bank.go"), "\nfunc (b Bank)"); !strings.Contains(
		readFile(t, "../../docs/effects.md"), "```go\nfunc (b Bank)"+code+"```") {
		t.Error("docs/effects.md does not show the code of bank.go")
	}
	b, url := newBank(t, 1)
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{RetryDelay: -1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProcessor(engine, adapters.Bank{URL: url}.Charge, &letters{})
	if err != nil {
		t.Fatal(err)
	}
	record := kafka.Record{Topic: topic, Offset: 7, Value: []byte(payment),
		Headers: []kafka.Header{{Key: kafka.DefaultKeyHeader, Value: []byte("pay-42")}}}
	for range 3 {
		p.Run(context.Background(), "cluster", [][]kafka.Record{{record}})
	}
	b.want(t, 2, "ledger#payments#pay-42", payment)
}
