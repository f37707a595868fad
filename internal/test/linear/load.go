package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/idemsk/idemsk/idem/store"
)

// Store is a store with access to single entries.
type Store interface {
	store.Store
	store.Admin
}

// Client is a store as one of several processes uses it: over its own connections.
type Client struct {
	Store Store
	// Effects are the effects of the client's completions, nil for none. The store is then a
	// store.Transactor.
	Effects *Effects
	// Disturb injects a fault into the client's network. It is nil if there is none.
	Disturb func(r *rand.Rand)
	// Sent returns the number of connections on which the client has sent anything since the call before. It
	// is nil if there are none.
	Sent func() int
}

// Effects are counters that completions increment.
type Effects struct {
	store.Transactor
	// Count enlists a write that adds one to the counter of a key.
	Count func(ctx context.Context, e store.Effect, key string) error
	// Read returns the counter of a key, 0 if there is none.
	Read func(ctx context.Context, key string) (int, error)
}

// Config configures Check.
type Config struct {
	Clients []Client
	Skew    time.Duration    // the MaxClockSkew of the store
	Now     func() time.Time // the clock of the store
	// Between is called by the clients before each call, for example to move a clock. It may be nil.
	Between func(r *rand.Rand)
	// Sweep deletes the entries whose expiry has passed. It is nil if the server does so by itself, or if
	// nothing does.
	Sweep func(ctx context.Context) error
	Ops   int // the number of operations to check
	Seed  uint64
}

// Report is what Check has done.
type Report struct {
	Ops       int // operations that were checked
	Keys      int
	Again     int // further requests of operations that were sent again
	Lost      int // operations without an answer
	Undecided int // operations on keys whose check took too long
	Answers   map[string]int
}

const (
	hotKeys  = 32 // keys that are in use at the same time
	opsOfKey = 40
	// a key with so many operations that may take effect late is not used any more: the time of a check
	// doubles with each.
	lostOfKey  = 6
	faultEvery = 64
	sweepEvery = 500
)

// Check makes random operations with all clients concurrently, and checks their answers. Its error is the
// first violation of the rules, or that of a sweep. The seed determines what each client does; how their
// operations interleave depends on timing.
func Check(ctx context.Context, cfg Config) (Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{Config: cfg, cancel: cancel, ended: make(chan *key, hotKeys),
		report: Report{Answers: make(map[string]int)}}
	for i := range r.hot {
		r.hot[i] = r.newKey()
	}
	var clients sync.WaitGroup
	for i := range cfg.Clients {
		c := &client{run: r, Client: cfg.Clients[i], number: i, rand: rand.New(rand.NewPCG(cfg.Seed, uint64(i)))} //nolint:gosec // not secret
		clients.Go(func() { c.work(ctx) })
	}
	go func() {
		clients.Wait()
		for _, k := range r.hot {
			r.ended <- k
		}
		close(r.ended)
	}()
	for k := range r.ended {
		if context.Cause(ctx) == nil {
			r.check(k)
		}
	}
	if err := context.Cause(ctx); !errors.Is(err, errEnough) {
		return r.report, err
	}
	return r.report, nil
}

// errEnough means that all operations were checked.
var errEnough = errors.New("linear: all operations were checked")

// run is one call of Check.
type run struct {
	Config
	order atomic.Int64 // of beginnings and ends
	names atomic.Int64
	ended chan *key // keys to be checked

	cancel context.CancelCauseFunc
	report Report
	mu     sync.Mutex
	hot    [hotKeys]*key
}

// key is a key and what was done with it.
type key struct {
	name string

	mu     sync.Mutex
	worn   bool // it is not hot any more
	begun  int  // operations
	lost   int  // those that may take effect late
	ops    []operation
	claims []store.ClaimRequest
	held   []store.Entry // what claims returned
	failed int64         // the last token with which the key was FAILED
}

func (r *run) newKey() *key { return &key{name: fmt.Sprint("k", r.names.Add(1))} }

// pick returns n different hot keys for an operation on each. It replaces those that are worn out.
func (r *run) pick(random *rand.Rand, n int) []*key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]*key, n)
	for i, slot := range random.Perm(hotKeys)[:n] {
		keys[i] = r.hot[slot]
		keys[i].mu.Lock()
		keys[i].begun++
		if keys[i].worn = keys[i].begun >= opsOfKey || keys[i].lost >= lostOfKey; keys[i].worn {
			r.hot[slot] = r.newKey()
		}
		keys[i].mu.Unlock()
	}
	return keys
}

// done records an operation. It hands the key to the checker if it was the last one.
func (r *run) done(k *key, o operation) {
	k.mu.Lock()
	k.ops = append(k.ops, o)
	k.lost += o.again
	if o.answer == gotNothing {
		k.lost++
	}
	if o.claim != nil {
		k.claims = append(k.claims, *o.claim)
	}
	if o.entry != nil && (o.answer == gotClaimed || o.answer == gotStolen) {
		k.held = append(k.held, *o.entry)
	}
	if o.entry != nil && o.entry.Status == store.StatusFailed {
		k.failed = o.entry.Token
	}
	last := k.worn && len(k.ops) == k.begun
	k.mu.Unlock()
	if last {
		r.ended <- k
	}
}

// check checks what was done with a key. It ends the run after a violation, and when it is long enough.
func (r *run) check(k *key) {
	rep := &r.report
	for i := range k.ops {
		rep.Answers[string(k.ops[i].answer)]++
		rep.Again += k.ops[i].again
		if k.ops[i].answer == gotNothing {
			rep.Lost++
		}
	}
	switch check(k.ops, r.Skew) {
	case porcupine.Illegal:
		r.cancel(errors.New(describe(k.name, k.ops)))
	case porcupine.Unknown:
		rep.Undecided += len(k.ops)
	case porcupine.Ok:
		rep.Ops, rep.Keys = rep.Ops+len(k.ops), rep.Keys+1
	}
	if rep.Ops >= r.Ops {
		r.cancel(errEnough)
	}
}

// Add adds another report.
func (r *Report) Add(more Report) {
	if r.Answers == nil {
		r.Answers = make(map[string]int)
	}
	for answer, n := range more.Answers {
		r.Answers[answer] += n
	}
	r.Ops, r.Keys, r.Again, r.Lost, r.Undecided = r.Ops+more.Ops, r.Keys+more.Keys, r.Again+
		more.Again, r.Lost+more.Lost, r.Undecided+more.Undecided
}
