// Package storetest is the conformance suite for stores: it checks the rules of package store. The test of a
// store opens a Harness and calls Run; its benchmark calls Benchmark. The suite skips no rule: a store that
// lacks what the rules need does not conform. The groups for a store.Transactor run if the Harness has
// one.
package storetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// Harness is an empty store under test with the access that the suite needs.
type Harness struct {
	Store store.Store // must also implement store.Admin

	// Now returns the store's time. Advance moves it forward. For a store with a server's clock, Advance
	// moves the entries back instead.
	Now     func() time.Time
	Advance func(d time.Duration)

	// Tolerance is the maximum difference between a stored time and Now. It is 0 for a store whose clock the
	// test moves.
	Tolerance time.Duration

	// Skew is the store's MaxClockSkew, 0 for a store with one clock.
	Skew time.Duration

	// LoseReply makes the store lose the reply to its next write and send the write again, as a client's
	// retry does.
	LoseReply func()

	// Interpose runs f once, between the read of the next take-over of a key and its write. It is nil for a
	// store that reads and writes atomically.
	Interpose func(f func())

	// Raw returns all data stored under a key, nil if there is none. Equal bytes mean that nothing was
	// changed.
	Raw func(t testing.TB, key string) []byte

	// Sweep deletes the expired entries, as TTL does.
	Sweep func(t testing.TB)

	// Effects is set for a store.Transactor.
	Effects *Effects
}

// Run checks the rules and the Admin methods of a store. open returns a new, empty store for each call.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	groups := []group{
		{"Rule1_OneWinner", oneWinner()},
		{"Rule2_FencingTokenGrows", fencingToken()},
		{"Rule3_OnlyTheOwnerSettles", onlyTheOwner()},
		{"Rule4_FinalStates", finalStates()},
		{"Rule5_LostReplies", lostReplies()},
		{"Rule6_Fingerprint", fingerprint()},
		{"Rule7_Leases", leases()},
		{"Rule8_Attempts", attempts()},
		{"Rule9_Expiry", expiry()},
		{"Rule10_Redrive", redrive()},
		{"Entries", entries()},
		{"Admin", admin()},
		{"Contexts", contexts()},
	}
	if first := open(t); first.Effects != nil {
		groups = append(groups, group{"Effects", effects()})
		if _, ok := first.Effects.Transactor.(store.CallTransactor); ok {
			groups = append(groups, group{"CallEffects", callEffects()})
		}
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, tc := range group.tests {
				t.Run(tc.name, func(t *testing.T) {
					h := traced(t, open(t))
					tc.run(&suite{T: t, Harness: h})
				})
			}
		})
	}
}

type group struct {
	name  string
	tests []test
}

type test struct {
	name string
	run  func(s *suite)
}

// The default values of the suite's claims.
const (
	lease     = 30 * time.Second
	retention = time.Hour
	key       = "payments#a"
	source    = "payments-3@17"
)

// suite is one test on one store.
type suite struct {
	*testing.T
	Harness
	owners int
}

func (s *suite) ctx() context.Context { return s.Context() }

func (s *suite) admin() store.Admin {
	s.Helper()
	a, ok := s.Store.(store.Admin)
	if !ok {
		s.Fatalf("%T does not implement store.Admin", s.Store)
	}
	return a
}

// request returns a claim by a new owner with TakeOver.
func (s *suite) request(options ...func(*store.ClaimRequest)) store.ClaimRequest {
	s.owners++
	req := store.ClaimRequest{
		Key: key, Fingerprint: store.FingerprintOf([]byte("value")), Owner: "owner-" + strconv.Itoa(s.owners),
		Source: source,
		Lease:  lease, Retention: retention, TakeOver: true,
	}
	for _, o := range options {
		o(&req)
	}
	return req
}

func withKey(k string) func(*store.ClaimRequest) {
	return func(r *store.ClaimRequest) { r.Key = k }
}

func withValue(v string) func(*store.ClaimRequest) {
	return func(r *store.ClaimRequest) { r.Fingerprint = store.FingerprintOf([]byte(v)) }
}

func withRedrive(token int64) func(*store.ClaimRequest) {
	return func(r *store.ClaimRequest) { r.RedriveToken = token }
}

func withoutTakeOver(r *store.ClaimRequest)    { r.TakeOver = false }
func withoutFingerprint(r *store.ClaimRequest) { r.Fingerprint = store.Fingerprint{} }

func (s *suite) claim(options ...func(*store.ClaimRequest)) store.ClaimResult {
	s.Helper()
	return s.claimAs(s.request(options...))
}

func (s *suite) claimAs(req store.ClaimRequest) store.ClaimResult {
	s.Helper()
	results := s.Store.Claim(s.ctx(), []store.ClaimRequest{req})
	if len(results) != 1 {
		s.Fatalf("claim of 1 key gave %d results", len(results))
	}
	return results[0]
}

// mustClaim claims the key and fails the test if the claim is refused.
func (s *suite) mustClaim(options ...func(*store.ClaimRequest)) store.Entry {
	s.Helper()
	res := s.claim(options...)
	s.wantState(res, store.Claimed)
	return res.Entry
}

func (s *suite) wantState(res store.ClaimResult, want store.ClaimState) {
	s.Helper()
	if res.Err != nil || res.State != want {
		s.Fatalf("claim: state %d, error %v; want state %d. Entry: %+v", res.State, res.Err, want, res.Entry)
	}
}

// settlement returns a settlement by the owner of an entry.
func settlement(entry store.Entry, op store.SettleOp) store.Settlement {
	set := store.Settlement{Op: op, Key: entry.Key, Token: entry.Token, Owner: entry.Owner,
		Retention: retention}
	switch op {
	case store.OpComplete:
		set.Result = []byte("result of " + entry.Owner)
	case store.OpFail, store.OpRelease:
		set.Failure = &store.Failure{Code: store.CodeError, Message: "failure of " + entry.Owner}
	case store.OpExtend:
		set.Lease = 2 * lease
	}
	return set
}

func (s *suite) settle(set store.Settlement) error {
	s.Helper()
	errs := s.Store.Settle(s.ctx(), []store.Settlement{set})
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	s.Fatalf("1 settlement gave %d errors", len(errs))
	return nil
}

func (s *suite) mustSettle(set store.Settlement) {
	s.Helper()
	if err := s.settle(set); err != nil {
		s.Fatalf("%s: %v", set.Op, err)
	}
}

func (s *suite) do(entry store.Entry, op store.SettleOp) {
	s.Helper()
	s.mustSettle(settlement(entry, op))
}

// wantFenced checks that a settlement is refused, changes nothing, and returns the current entry in its
// error.
func (s *suite) wantFenced(set store.Settlement) {
	s.Helper()
	before := s.Raw(s.T, set.Key)
	err := s.settle(set)
	var fenced *store.FencedError
	if !errors.Is(err, store.ErrFenced) || !errors.As(err, &fenced) {
		s.Errorf("%s: %v; want a FencedError", set.Op, err)
		return
	}
	s.wantUnchanged(set.Key, before)
	if before == nil {
		if fenced.Current.Status != "" {
			s.Errorf("%s: the key is gone, but FencedError.Current is %+v", set.Op, fenced.Current)
		}
		return
	}
	s.wantEntry(fenced.Current, s.get(set.Key))
}

func (s *suite) wantUnchanged(key string, before []byte) {
	s.Helper()
	if after := s.Raw(s.T, key); string(after) != string(before) {
		s.Errorf("the stored item was changed:\nbefore %s\nafter  %s", before, after)
	}
}

func (s *suite) get(key string) store.Entry {
	s.Helper()
	entry, err := s.admin().Get(s.ctx(), key)
	if err != nil {
		s.Fatalf("get %q: %v", key, err)
	}
	return entry
}

func (s *suite) wantEntry(got, want store.Entry) {
	s.Helper()
	if diff := Diff(got, want); diff != "" {
		s.Errorf("entries differ (got, want): %s", diff)
	}
}

func (s *suite) wantTime(what string, got, want time.Time) {
	s.Helper()
	if d := got.Sub(want).Abs(); d > s.Tolerance {
		s.Errorf("%s is %v; want %v", what, got.UTC(), want.UTC())
	}
}

// allOps returns all kinds of settlements.
func allOps() []store.SettleOp {
	return []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend}
}

// Clock is a clock that changes only by Advance. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock. Its time has a fraction of a second, so that rounding is visible, and is so far
// in the future that the TTL of a real server deletes nothing during a test.
func NewClock() *Clock {
	return &Clock{now: time.UnixMilli(4_000_000_000_123)}
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Resender wraps a store without a network. After Arm, the next call is made twice with the same arguments,
// and only the second answer is returned.
type Resender struct {
	store.Store
	store.Admin
	mu    sync.Mutex
	armed bool
}

// Arm makes the next call lose its reply.
func (r *Resender) Arm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.armed = true
}

func (r *Resender) fire() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.armed
	r.armed = false
	return was
}

// Claim implements store.Store.
func (r *Resender) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	if r.fire() {
		r.Store.Claim(ctx, reqs)
	}
	return r.Store.Claim(ctx, reqs)
}

// Settle implements store.Store.
func (r *Resender) Settle(ctx context.Context, ss []store.Settlement) []error {
	if r.fire() {
		r.Store.Settle(ctx, ss)
	}
	return r.Store.Settle(ctx, ss)
}
