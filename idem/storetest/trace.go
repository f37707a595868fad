package storetest

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

// maxTracedHistories bounds the traces of AgreesWith, because TLC has to read all.
const maxTracedHistories = 20

// traced returns the harness with a store that records its calls, if keytrace.DirVariable names a folder.
// scripts/trace.sh compares the traces with the model (docs/spec/trace.tla).
func traced(tb testing.TB, h Harness) Harness {
	tb.Helper()
	dir := os.Getenv(keytrace.DirVariable)
	if dir == "" {
		return h
	}
	s, ok := h.Store.(fullStore)
	if !ok {
		tb.Fatalf("%T does not implement store.Admin", h.Store)
	}
	began := h.Now()
	var all []observation
	r := &recorder{fullStore: s, now: h.Now, clock: keytrace.Clock(began),
		emit: func(o *observation) { all = append(all, *o) }}
	tb.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		writeTraces(tb, all, &keytrace.Config{Dir: dir, Began: began, Skew: h.Skew, Tolerance: h.Tolerance})
	})
	h.Store = r
	return h
}

// recorder records the calls of a store.
type recorder struct {
	fullStore
	now   func() time.Time
	clock keytrace.Clock // since the store was opened

	mu    sync.Mutex
	calls int
	emit  func(*observation) // called under mu, in the order of what is observed
}

// fullStore is a store with access to single entries.
type fullStore interface {
	store.Store
	store.Admin
}

// observation is the beginning or the end of a call for one key, as a process observed it. Only the end has
// the answer.
type observation struct {
	Key     string `json:"key"`
	Process int    `json:"process"`
	// the model does not have the entry, because another program wrote it
	Unknown bool           `json:"unknown"`
	Event   keytrace.Event `json:"event"`
}

// begin records the beginning of a call.
func (r *recorder) begin(key string, fill func(o *observation)) *observation {
	r.calls++
	o := &observation{Key: key, Process: os.Getpid(),
		Event: keytrace.Event{Begin: true, ID: r.calls, At: r.clock.At(r.now()), Answer: "unknown"}}
	fill(o)
	r.emit(o)
	return o
}

// end records the end of a call. A call without an answer has none: it may take effect later.
func (r *recorder) end(o *observation, answer string, got *store.Entry, err error) {
	o.Unknown = errors.Is(err, store.ErrForeignEntry)
	if answer == "" && !o.Unknown {
		return
	}
	e := &o.Event
	if e.Begin, e.At, e.Answer = false, r.clock.At(r.now()), answer; got != nil {
		e.Got, e.State = true, r.clock.State(got)
	}
	r.emit(o)
}

// Claim implements store.Store.
func (r *recorder) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	calls := make([]*observation, len(reqs))
	r.mu.Lock()
	for i := range reqs {
		calls[i] = r.begin(reqs[i].Key, func(o *observation) { r.fillClaim(o, &reqs[i]) })
	}
	r.mu.Unlock()
	results := r.fullStore.Claim(ctx, reqs)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range results {
		res := &results[i]
		r.end(calls[i], claimAnswer(res), &res.Entry, res.Err)
	}
	return results
}

func (r *recorder) fillClaim(o *observation, req *store.ClaimRequest) {
	e := &o.Event
	e.Op, e.Own, e.Fp = "claim", keytrace.Number(req.Owner), keytrace.Number(req.Fingerprint.String())
	e.TakeOver, e.Redrive = req.TakeOver, r.clock.Token(req.RedriveToken)
	e.Lease, e.Retention = req.Lease.Milliseconds(), req.Retention.Milliseconds()
}

func claimAnswer(res *store.ClaimResult) string {
	switch {
	case errors.Is(res.Err, store.ErrFingerprintMismatch):
		return "mismatch"
	case res.Err != nil:
		return ""
	case res.Stolen:
		return "stolen"
	}
	return [...]string{store.ClaimUnknown: "", store.Claimed: "claimed", store.ClaimInFlight: "inFlight",
		store.ClaimLeaseOver: "leaseOver",
		store.ClaimCompleted: "completed", store.ClaimFailed: "failed"}[res.State]
}

// Settle implements store.Store.
func (r *recorder) Settle(ctx context.Context, ss []store.Settlement) []error {
	calls := make([]*observation, len(ss))
	r.mu.Lock()
	for i := range ss {
		calls[i] = r.begin(ss[i].Key, func(o *observation) { r.fillSettlement(o, &ss[i]) })
	}
	r.mu.Unlock()
	errs := r.fullStore.Settle(ctx, ss)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ss {
		var err error
		if len(errs) > 0 {
			err = errs[i]
		}
		answer, got := settleAnswer(err)
		r.end(calls[i], answer, got, err)
	}
	return errs
}

func (r *recorder) fillSettlement(o *observation, s *store.Settlement) {
	e := &o.Event
	if e.Op, e.Tx = s.Op.String(), s.Effect != nil; s.Refund {
		e.Op = "unrun"
	}
	e.Own, e.Ver = keytrace.Number(s.Owner), r.clock.Token(s.Token)
	e.Lease, e.Retention, e.Delay = s.Lease.Milliseconds(), s.Retention.Milliseconds(), s.Delay.Milliseconds()
}

func settleAnswer(err error) (answer string, got *store.Entry) {
	var fenced *store.FencedError
	switch {
	case err == nil:
		return "ok", nil
	case errors.As(err, &fenced):
		return "fenced", &fenced.Current
	case errors.Is(err, store.ErrRejected):
		return "rejected", nil
	case errors.Is(err, store.ErrContended):
		return "contended", nil
	}
	return "", nil
}

// Get implements store.Admin.
func (r *recorder) Get(ctx context.Context, key string) (store.Entry, error) {
	r.mu.Lock()
	o := r.begin(key, func(o *observation) { o.Event.Op = "get" })
	r.mu.Unlock()
	entry, err := r.fullStore.Get(ctx, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.end(o, "found", &entry, nil)
	case errors.Is(err, store.ErrNotFound):
		r.end(o, "absent", nil, nil)
	default:
		r.end(o, "", nil, err)
	}
	return entry, err
}

// Delete implements store.Admin.
func (r *recorder) Delete(ctx context.Context, key string, token int64) error {
	r.mu.Lock()
	o := r.begin(key, func(o *observation) { o.Event.Op, o.Event.Ver = "delete", r.clock.Token(token) })
	r.mu.Unlock()
	err := r.fullStore.Delete(ctx, key, token)
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, got := settleAnswer(err)
	if errors.Is(err, store.ErrNotFound) {
		answer = "absent"
	}
	r.end(o, answer, got, err)
	return err
}

// writeTraces writes the trace of each key, unless there is an entry in it that the model does not have.
func writeTraces(tb testing.TB, all []observation, to *keytrace.Config) {
	tb.Helper()
	to.Name = tb.Name()
	for _, events := range traces(all) {
		if err := to.Write(events); err != nil {
			tb.Fatal(err)
		}
	}
}

// traces returns the events of each key, with the answers at the beginnings of the calls, and numbers of
// calls that differ between processes.
func traces(all []observation) map[string][]*keytrace.Event {
	type name struct{ process, call int }
	begun, byKey, unknown := make(map[name]*keytrace.Event), make(map[string][]*keytrace.Event),
		make(map[string]bool)
	for i := range all {
		o := &all[i]
		e, n := &o.Event, name{o.Process, o.Event.ID}
		if unknown[o.Key] = unknown[o.Key] || o.Unknown; e.Begin {
			begun[n] = e
			e.ID = len(begun)
		} else {
			b := begun[n]
			b.Answer, b.Got, b.State = e.Answer, e.Got, e.State
			e = &keytrace.Event{ID: b.ID, At: e.At}
		}
		byKey[o.Key] = append(byKey[o.Key], e)
	}
	maps.DeleteFunc(byKey, func(key string, _ []*keytrace.Event) bool { return unknown[key] })
	return byKey
}
