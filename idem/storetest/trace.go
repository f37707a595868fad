package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// traceVariable is the environment variable that names a folder for traces. If it is set, Run and AgreesWith write there what they
// observe of each key, and tests with several processes what TracedProcess observes: a file for each key of a store, and in it one
// event in a line. scripts/trace.sh compares the traces with the model (docs/spec/trace.tla).
const traceVariable = "IDEMSK_TRACE_DIR"

// maxTracedHistories bounds the traces of AgreesWith, because TLC has to read all.
const maxTracedHistories = 20

// traced returns the harness with a store that records its calls, if the variable is set.
func traced(tb testing.TB, h Harness) Harness {
	tb.Helper()
	dir := os.Getenv(traceVariable)
	if dir == "" {
		return h
	}
	s, ok := h.Store.(fullStore)
	if !ok {
		tb.Fatalf("%T does not implement store.Admin", h.Store)
	}
	var all []observation
	r := &recorder{fullStore: s, clock: h.Now, began: h.Now(), emit: func(o *observation) { all = append(all, *o) }}
	tb.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		writeTraces(tb, dir, all, r.began, h.Skew, h.Tolerance)
	})
	h.Store = r
	return h
}

// recorder records the calls of a store.
type recorder struct {
	fullStore
	clock func() time.Time
	began time.Time

	mu    sync.Mutex
	calls int
	emit  func(*observation) // called under mu, in the order of what is observed
}

// fullStore is a store with access to single entries.
type fullStore interface {
	store.Store
	store.Admin
}

// observation is the beginning or the end of a call for one key, as a process observed it. Only the end has the answer.
type observation struct {
	Key     string `json:"key"`
	Process int    `json:"process"`
	Unknown bool   `json:"unknown"` // the model does not have the call, or the entry, because another program wrote it
	Event   event  `json:"event"`
}

// event is a line of a trace: the beginning of a call, with the answer that it got, or the end of a call. Times are in milliseconds
// since the store was opened. Tokens are milliseconds since an hour before. Owners and fingerprints are
// numbers, 0 for none.
type event struct {
	Begin     bool   `json:"begin"`
	ID        int    `json:"id"` // of the call
	At        int64  `json:"at"`
	Op        string `json:"op"`
	Own       int    `json:"own"`
	Ver       int64  `json:"ver"`
	Fp        int    `json:"fp"`
	TakeOver  bool   `json:"takeOver"`
	Redrive   int64  `json:"redrive"`
	Lease     int64  `json:"lease"`
	Retention int64  `json:"retention"`
	Delay     int64  `json:"delay"`
	Tx        bool   `json:"tx"` // a completion with the effect of a handler
	Answer    string `json:"answer"`
	Got       bool   `json:"got"` // the answer has an entry
	entryState
}

// entryState is an entry as a state of the model (docs/spec/idem.tla). That its lease or its retention is over is no part of it,
// because entries have times instead.
type entryState struct {
	Status   string `json:"gotSt"` // A: there is none; S, C, F
	Token    int64  `json:"gotVer"`
	Owner    int    `json:"gotOwn"`
	Attempts int    `json:"gotAtt"`
	Print    int    `json:"gotFp"`
	Released bool   `json:"gotRel"`
	Until    int64  `json:"gotUntil"` // the end of the lease, or of the delay if it is released
	Expiry   int64  `json:"gotExp"`
}

// state maps an entry to the model.
func (r *recorder) state(e *store.Entry) entryState {
	if e.Status == "" {
		return entryState{Status: "A"}
	}
	until := e.LeaseUntil
	if e.Released() {
		until = e.RetryAt
	}
	return entryState{
		Status: string(e.Status[0]), Token: r.token(e.Token), Owner: number(e.Owner), Attempts: e.Attempts, Print: number(e.Fingerprint.String()),
		Released: e.Released(), Until: r.at(until), Expiry: r.at(e.Expiry),
	}
}

// number returns a number for a name, the same in all processes, 0 for the empty name.
func number(name string) int {
	if name == "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails
	return 1 + int(h.Sum32()&(1<<30-1))
}

// epoch is the token in a trace of a claim at the time 0.
const epoch = int64(time.Hour / time.Millisecond)

// token returns a token as a number that TLC can represent, 0 if it is none that the store has issued.
func (r *recorder) token(v int64) int64 {
	if n := v - r.began.UnixMilli() + epoch; n > 0 && n < 1<<30 {
		return n
	}
	return 0
}

// at returns a time in milliseconds since the store was opened.
func (r *recorder) at(t time.Time) int64 { return t.UnixMilli() - r.began.UnixMilli() }

// begin records the beginning of a call.
func (r *recorder) begin(key string, fill func(o *observation)) *observation {
	r.calls++
	o := &observation{Key: key, Process: os.Getpid(), Event: event{Begin: true, ID: r.calls, At: r.at(r.clock()), Answer: "unknown"}}
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
	if e.Begin, e.At, e.Answer = false, r.at(r.clock()), answer; got != nil {
		e.Got, e.entryState = true, r.state(got)
	}
	r.emit(o)
}

// Claim implements store.Store.
func (r *recorder) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	calls := make([]*observation, len(reqs))
	r.mu.Lock()
	for i := range reqs {
		calls[i] = r.begin(reqs[i].Key, func(o *observation) { r.fillClaim(o, "claim", &reqs[i]) })
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

// fillClaim fills in a claim. The model does not have leases of ranges, nor claims with a token.
func (r *recorder) fillClaim(o *observation, op string, req *store.ClaimRequest) {
	o.Unknown = o.Unknown || req.Range != nil || req.Token != 0
	e := &o.Event
	e.Op, e.Own, e.Fp, e.TakeOver, e.Redrive = op, number(req.Owner), number(req.Fingerprint.String()), req.TakeOver, r.token(req.Redrive)
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
	return [...]string{store.ClaimUnknown: "", store.Claimed: "claimed", store.ClaimInFlight: "inFlight", store.ClaimLeaseOver: "leaseOver",
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

// fillSettlement fills in a settlement. Of those that claim their key, the model has only the completion.
func (r *recorder) fillSettlement(o *observation, s *store.Settlement) {
	o.Unknown = s.Range != nil || s.Claim != nil && s.Op != store.OpComplete
	e := &o.Event
	e.Op, e.Tx = s.Op.String(), s.Effect != nil
	switch {
	case s.Claim != nil:
		r.fillClaim(o, "commit", s.Claim)
	case s.Refund:
		e.Op = "unrun"
	}
	e.Own, e.Ver = number(s.Owner), r.token(s.Token)
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
	case errors.Is(err, store.ErrClaimRefused):
		return "refused", nil
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
	o := r.begin(key, func(o *observation) { o.Event.Op, o.Event.Ver = "delete", r.token(token) })
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

// writeTraces writes the trace of each key, unless there is a call or an entry in it that the model does not have.
func writeTraces(tb testing.TB, dir string, all []observation, began time.Time, skew, tolerance time.Duration) {
	tb.Helper()
	for _, events := range traces(all) {
		f, err := os.CreateTemp(dir, strings.NewReplacer("/", "_", "*", "_").Replace(tb.Name())+"-*.jsonl")
		if err != nil {
			tb.Fatal(err)
		}
		var text bytes.Buffer
		out := json.NewEncoder(&text)
		for _, e := range events {
			if err := out.Encode(e); err != nil {
				tb.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(f, `{"skew":%d,"tolerance":%d,"phase":%d,"epoch":%d}`+"\n%s",
			skew.Milliseconds(), tolerance.Milliseconds(), began.UnixMilli()%1000, epoch, &text); err != nil {
			tb.Fatal(err)
		}
		if err := f.Close(); err != nil {
			tb.Fatal(err)
		}
	}
}

// traces returns the events of each key, with the answers at the beginnings of the calls, and numbers of calls that differ between processes.
func traces(all []observation) map[string][]*event {
	type name struct{ process, call int }
	begun, byKey, unknown := make(map[name]*event), make(map[string][]*event), make(map[string]bool)
	for i := range all {
		o := &all[i]
		e, n := &o.Event, name{o.Process, o.Event.ID}
		if unknown[o.Key] = unknown[o.Key] || o.Unknown; e.Begin {
			begun[n] = e
			e.ID = len(begun)
		} else {
			b := begun[n]
			b.Answer, b.Got, b.entryState = e.Answer, e.Got, e.entryState
			e = &event{ID: b.ID, At: e.At}
		}
		byKey[o.Key] = append(byKey[o.Key], e)
	}
	maps.DeleteFunc(byKey, func(key string, _ []*event) bool { return unknown[key] })
	return byKey
}
