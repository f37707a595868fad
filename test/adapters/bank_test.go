package adapters_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/test/adapters"
)

// bank charges each idempotency key once. The answer to the first request is an error, though it has charged.
type bank struct {
	mu       sync.Mutex
	charges  map[string]string // by key, the body
	requests int
}

func newBank(t *testing.T) (b *bank, url string) {
	b = &bank{charges: make(map[string]string)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.charges[r.Header.Get("Idempotency-Key")] = string(body)
	if b.requests++; b.requests == 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// want checks that the bank was asked twice and has charged once, under a key.
func (b *bank) want(t *testing.T, key string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.requests != 2 || len(b.charges) != 1 || b.charges[key] != payment {
		t.Errorf("%d requests, charges %q; want 2, and one under %s", b.requests, b.charges, key)
	}
}

const payment = `{"paymentId":"pay-42","amount":1250}`

// A repeated attempt charges once, and docs/effects.md shows the code.
func TestChargeIsRepeatedUnderItsKey(t *testing.T) {
	if _, code, _ := strings.Cut(readFile(t, "bank.go"), "\nfunc (b Bank)"); !strings.Contains(
		readFile(t, "../../docs/effects.md"), "```go\nfunc (b Bank)"+code+"```") {
		t.Error("docs/effects.md does not show the code of bank.go")
	}
	b, url := newBank(t)
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
	b.want(t, "ledger#payments#pay-42")
}
