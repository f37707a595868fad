package idem_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// The defaults of the tests' tasks.
const (
	testKey    = "payments#a"
	testSource = "payments-3@17"
	lease      = 30 * time.Second
)

var (
	errBoom    = errors.New("boom")
	errNetwork = errors.New("connection refused")
)

// spy is a memory store that records its requests and lets a test intervene: land passes the request on. The
// hooks are set before the store is used.
type spy struct {
	*memstore.Store
	onClaim func(ctx context.Context, reqs []store.ClaimRequest,
		land func() []store.ClaimResult) []store.ClaimResult
	onSettle func(ctx context.Context, set store.Settlement, land func() error) error

	mu      sync.Mutex
	claims  [][]store.ClaimRequest
	settled []store.Settlement
}

func newSpy() *spy { return &spy{Store: memstore.New(memstore.Config{})} }

// Claim implements store.Store.
func (s *spy) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	s.mu.Lock()
	s.claims = append(s.claims, slices.Clone(reqs))
	s.mu.Unlock()
	land := func() []store.ClaimResult { return s.Store.Claim(ctx, reqs) }
	if s.onClaim == nil {
		return land()
	}
	return s.onClaim(ctx, reqs, land)
}

// Settle implements store.Store. Engines settle one key at a time.
func (s *spy) Settle(ctx context.Context, ss []store.Settlement) []error {
	s.mu.Lock()
	s.settled = append(s.settled, ss...)
	s.mu.Unlock()
	if s.onSettle == nil {
		return s.Store.Settle(ctx, ss)
	}
	land := func() error { // settlements with a hook are sent individually
		if errs := s.Store.Settle(ctx, ss); errs != nil {
			return errs[0]
		}
		return nil
	}
	return s.answer(s.onSettle(ctx, ss[0], land))
}

func (*spy) answer(err error) []error {
	if err == nil {
		return nil
	}
	return []error{err}
}

// claimed returns the number of claims of single keys.
func (s *spy) claimed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(slices.Concat(s.claims...))
}

// count returns the number of settlements of one kind.
func (s *spy) count(op store.SettleOp) int { return len(s.all(op)) }

func (s *spy) all(op store.SettleOp) []store.Settlement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.settled), func(set store.Settlement) bool { return set.Op != op })
}

// owners returns the owners of the claims, in order.
func (s *spy) owners() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owners []string
	for _, req := range slices.Concat(s.claims...) {
		owners = append(owners, req.Owner)
	}
	return owners
}

// failing returns a hook for onSettle that fails all settlements of the given kinds.
func failing(ops ...store.SettleOp) func(context.Context, store.Settlement, func() error) error {
	return func(ctx context.Context, set store.Settlement, land func() error) error {
		switch {
		case !slices.Contains(ops, set.Op):
			return land()
		case ctx.Err() != nil:
			return ctx.Err() // no request is sent
		}
		return errNetwork
	}
}

// down returns a hook for onClaim that answers every claim with err.
func down(err error) func(context.Context, []store.ClaimRequest,
	func() []store.ClaimResult) []store.ClaimResult {
	return func(_ context.Context, reqs []store.ClaimRequest,
		_ func() []store.ClaimResult) []store.ClaimResult {
		results := make([]store.ClaimResult, len(reqs))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
}

// deadLetters records dead letters. Its hook is called with each.
type deadLetters struct {
	sent   []idem.DeadLetter
	onSend func(ctx context.Context, b idem.DeadLetter) error
}

// Send implements idem.DeadLetterSink.
func (g *deadLetters) Send(ctx context.Context, b idem.DeadLetter) error {
	g.sent = append(g.sent, b)
	if g.onSend == nil {
		return nil
	}
	return g.onSend(ctx, b)
}

// handler is a handler that counts its calls.
type handler struct {
	calls  int
	handle func(ctx context.Context, call int) ([]byte, error)
}

// Handle implements idem.Handler.
func (h *handler) Handle(ctx context.Context) ([]byte, error) {
	h.calls++
	return h.handle(ctx, h.calls)
}

func returning(result string, err error) *handler {
	return &handler{handle: func(context.Context, int) ([]byte, error) { return []byte(result), err }}
}

// taking returns a handler that returns after d, even if its context ends before.
func taking(d time.Duration, result string, err error) *handler {
	return &handler{handle: func(context.Context, int) ([]byte, error) {
		pass(d)
		return []byte(result), err
	}}
}

func taskOf(h idem.Handler) idem.Task {
	return idem.Task{Key: testKey, Fingerprint: store.FingerprintOf([]byte("value")), Source: testSource,
		Handler: h}
}

func taskWithDeadLetters(g idem.DeadLetterSink, h idem.Handler) idem.Task {
	task := taskOf(h)
	task.DeadLetters = g
	return task
}

func newEngine(t testing.TB, st store.Store, cfg idem.Config) *idem.Engine {
	t.Helper()
	cfg.RetryDelay = cmp.Or(cfg.RetryDelay, -1)
	e, err := idem.New(st, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func get(t testing.TB, st store.Admin, key string) store.Entry {
	t.Helper()
	entry, err := st.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

// pass waits for d of the synctest bubble's time.
func pass(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}

func wantKind(t testing.TB, out idem.Outcome, want idem.Kind) {
	t.Helper()
	if out.Kind != want {
		t.Fatalf("outcome %v (error: %v); want %v", out.Kind, out.Err, want)
	}
}

func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %v; want one that is %v", err, target)
		}
	}
}

func hashed(key string) string {
	stored, err := store.Key(key, true)
	if err != nil {
		panic(err)
	}
	return stored
}
