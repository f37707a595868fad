package idem_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// process is an engine whose requests to the store fail as planned.
type process struct {
	world  *world
	engine *idem.Engine
	faults []faultKind // of its next calls
}

type faultKind int

const (
	noFault     faultKind = iota
	lostRequest           // the request does not arrive
	lostReply             // the request arrives, and its reply is lost
	lateRequest           // the request is given up, and arrives later
	sentTwice             // the request arrives, and the client's retry arrives again
)

// observed is the state of a key as observed.
type observed struct {
	token   int64           // the greatest that was ever given out
	owners  map[string]bool // that ever got it
	life    int             // counts the lives of the key
	faulted bool            // a fault in this life allows it to end in two ways
	letters int             // dead letters in this life
	result  string          // that completed this life; "" if none did
	commits int             // completions, in all lives
	effects int             // that took place, in all lives

	lives        map[int64]int    // by token
	charged      map[int]int      // by life: calls of handlers that were not given back
	results      map[int64]string // by token, in all lives
	deadLettered map[int64]bool   // by token, in all lives
	failed       map[int64]bool   // by token, in all lives
}

func (p *process) plan(faults []faultKind) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	p.faults = faults
}

func (w *world) errorf(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// NewEffect implements store.Transactor.
func (p *process) NewEffect() store.Effect { return p.world.store.NewEffect() }

// Claim implements store.Store. It passes requests to the real store, with faults.
func (p *process) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	reqs = slices.Clone(reqs)
	failed := make([]store.ClaimResult, len(reqs))
	for i := range failed {
		failed[i].Err = errNetwork
	}
	switch p.nextFault() {
	case lostRequest:
		return failed
	case lateRequest:
		p.world.late = append(p.world.late, func() { p.world.landClaim(reqs) })
		return failed
	case lostReply:
		p.world.observeClaims(ctx, reqs)
		return failed
	case sentTwice:
		p.world.observeClaims(ctx, reqs)
	case noFault:
	}
	return p.world.observeClaims(ctx, reqs)
}

// Settle implements store.Store. It passes requests to the real store, with faults.
func (p *process) Settle(ctx context.Context, ss []store.Settlement) []error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	ss = slices.Clone(ss)
	switch p.nextFault() {
	case lostRequest:
		return []error{errNetwork}
	case lateRequest:
		p.world.late = append(p.world.late, func() { p.world.observeSettlement(context.Background(), ss) })
		return []error{errNetwork}
	case lostReply:
		p.world.observeSettlement(ctx, ss)
		return []error{errNetwork}
	case sentTwice:
		p.world.observeSettlement(ctx, ss)
	case noFault:
	}
	return p.world.observeSettlement(ctx, ss)
}

func (p *process) nextFault() faultKind {
	if len(p.faults) == 0 {
		return noFault
	}
	f := p.faults[0]
	p.faults = p.faults[1:]
	return f
}

// landClaim applies a claim that was given up. Its condition was an absent key, so it must not steal.
func (w *world) landClaim(reqs []store.ClaimRequest) {
	for _, req := range reqs {
		if _, err := w.store.Get(context.Background(), req.Key); errors.Is(err, store.ErrNotFound) {
			delete(w.keys[req.Key].owners, req.Owner) // the same request, at another time
			w.observeClaims(context.Background(), []store.ClaimRequest{req})
		}
	}
}

// observeClaims sends claims to the store and checks the results.
func (w *world) observeClaims(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	before := make([]*store.Entry, len(reqs))
	for i := range reqs {
		if rec, err := w.store.Get(ctx, reqs[i].Key); err == nil {
			before[i] = &rec
		}
	}
	results := w.store.Claim(ctx, reqs)
	for i, res := range results {
		if res.State == store.Claimed && res.Err == nil {
			w.observeClaim(&reqs[i], before[i], &res.Entry)
		}
	}
	return results
}

func (w *world) observeClaim(req *store.ClaimRequest, before, now *store.Entry) {
	o := w.keys[req.Key]
	if before != nil && before.Owner == req.Owner && before.Token == now.Token {
		return // its own, sent again
	}
	if o.owners[req.Owner] {
		w.errorf("%s: owner %s got the key a second time, with token %d", req.Key, req.Owner, now.Token)
	}
	o.owners[req.Owner] = true
	if now.Token <= o.token {
		w.errorf("%s: token %d was given out after %d", req.Key, now.Token, o.token)
	}
	o.token = now.Token
	if before == nil || before.Status != store.StatusStarted {
		o.life++
		o.faulted, o.letters, o.result = false, 0, ""
	}
	o.lives[now.Token] = o.life
	if before != nil && store.Stolen(before) {
		o.faulted = true // its owner may be alive
	}
}

// observeSettlement sends a settlement to the store and checks the result.
func (w *world) observeSettlement(ctx context.Context, ss []store.Settlement) []error {
	set := &ss[0]
	o := w.keys[set.Key]
	before, _ := w.store.Get(ctx, set.Key)
	errs := w.store.Settle(ctx, ss)
	now, _ := w.store.Get(ctx, set.Key)
	if now.Attempts < 0 {
		w.errorf("%s: %d attempts after %s", set.Key, now.Attempts, set.Op)
	}
	if set.Op == store.OpComplete && before.Status != store.StatusCompleted && now.Status == store.StatusCompleted {
		if o.result != "" {
			w.errorf("%s: completed twice in one life, by %q and %q", set.Key, o.result, set.Result)
		}
		o.result = string(set.Result)
		o.commits++
		o.results[set.Token] = o.result
		if o.letters > 0 && !o.faulted {
			w.errorf("%s: dead-lettered and completed, although nothing went wrong", set.Key)
		}
	}
	if o.effects != o.commits {
		w.errorf("%s: %d effects and %d completions after %s by %d: %v", set.Key, o.effects, o.commits, set.Op, set.Token, errs)
	}
	if now.Status == store.StatusFailed {
		o.failed[now.Token] = true
	}
	if errs != nil || before.Status == now.Status && set.Op != store.OpExtend && set.Op != store.OpRelease {
		o.faulted = true
	}
	return errs
}

// begin observes the call of a handler.
func (w *world) begin(key string, a idem.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.keys[key]
	if a.Number < 1 || a.Number > maxAttempts {
		w.errorf("%s: called for attempt %d of %d", key, a.Number, maxAttempts)
	}
	life := o.lives[a.Token]
	if o.charged[life]++; o.charged[life] > maxAttempts {
		w.errorf("%s: called %d times in one life; want at most %d", key, o.charged[life], maxAttempts)
	}
}

// giveBack observes that a handler asks for its attempt to be refunded.
func (w *world) giveBack(key string, a idem.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.keys[key]
	o.charged[o.lives[a.Token]]--
}

func rec(st *memstore.Store, key string) store.Entry {
	r, _ := st.Get(context.Background(), key)
	return r
}

// redrive is the token of one of the key's dead letters, or 0.
func (o *observed) redrive(which int) int64 {
	tokens := slices.Sorted(maps.Keys(o.deadLettered))
	if which >= len(tokens) {
		return 0
	}
	return tokens[which]
}

// verify compares an outcome with the observed state.
func (w *world) verify(key string, out idem.Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, now := w.keys[key], rec(w.store, key)
	is := func(s store.Status) bool { return now.Status == s && now.Token == out.Token }
	switch out.Kind {
	case idem.Executed, idem.Replayed:
		if out.Kind == idem.Executed && !is(store.StatusCompleted) || o.results[out.Token] != string(out.Result) || len(out.Result) == 0 || out.Err != nil {
			w.errorf("%s: %v with token %d, result %q, error %v; the key is %+v", key, out.Kind, out.Token, out.Result, out.Err, now)
		}
	case idem.DeadLettered, idem.ReplayedFailed:
		if out.Kind == idem.DeadLettered && !is(store.StatusFailed) || !o.failed[out.Token] || !o.deadLettered[out.Token] || out.Err == nil {
			w.errorf("%s: %v with token %d, dead letter sent %t; the key is %+v", key, out.Kind, out.Token, o.deadLettered[out.Token], now)
		}
	case idem.CompletionFailed, idem.Retry, idem.DependencyDown, idem.NotStarted, idem.Fenced, idem.InFlight, idem.StoreDown, idem.KindUnknown:
		if out.Err == nil && out.Kind != idem.KindUnknown {
			w.errorf("%s: %v without an error", key, out.Kind)
		}
		if out.Kind == idem.CompletionFailed || out.Kind == idem.Fenced {
			o.faulted = true
		}
	case idem.FailedOpen, idem.Unprotected, idem.Mismatched, idem.InvalidKey:
		w.errorf("%s: %v: %v", key, out.Kind, out.Err)
	}
}
