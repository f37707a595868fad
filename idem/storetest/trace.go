package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// traceVariable is the environment variable that names a folder for traces. If it is set, Run and AgreesWith write there what they
// observe of each key: a file for each key of a store, and in it one event in a line. scripts/trace.sh compares the traces with the
// model (docs/spec/trace.tla).
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
	r := &recorder{harness: h, began: h.Now(), traces: make(map[string]*trace)}
	tb.Cleanup(func() { r.write(tb, dir) })
	h.Store = r
	return h
}

// recorder records the calls of a store.
type recorder struct {
	harness Harness
	began   time.Time

	mu     sync.Mutex
	calls  int
	traces map[string]*trace // by key
}

// trace is what was observed of one key. Names of owners and fingerprints are replaced by numbers.
type trace struct {
	events       []*event
	owners       map[string]int
	fingerprints map[store.Fingerprint]int
	foreign      bool // another program wrote the entry, which the model does not have
}

// event is a line of a trace: the beginning of a call, with the answer that it got, or the end of a call. Times are in milliseconds
// since the store was opened. Tokens are milliseconds since an hour before.
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
func (r *recorder) state(tr *trace, e *store.Entry) entryState {
	if e.Status == "" {
		return entryState{Status: "A"}
	}
	until := e.LeaseUntil
	if e.Released() {
		until = e.RetryAt
	}
	return entryState{
		Status: string(e.Status[0]), Token: r.token(e.Token), Owner: tr.owner(e.Owner), Attempts: e.Attempts, Print: tr.print(e.Fingerprint),
		Released: e.Released(), Until: r.at(until), Expiry: r.at(e.Expiry),
	}
}

func (tr *trace) owner(name string) int {
	if name == "" {
		return 0
	}
	return number(tr.owners, name)
}

func (tr *trace) print(f store.Fingerprint) int {
	if f.IsZero() {
		return 0
	}
	return number(tr.fingerprints, f)
}

// number returns the number of a name: 1, 2 and so on in the order of their first use.
func number[K comparable](numbers map[K]int, name K) int {
	if _, ok := numbers[name]; !ok {
		numbers[name] = len(numbers) + 1
	}
	return numbers[name]
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

func (r *recorder) now() int64 { return r.at(r.harness.Now()) }

// begin records the beginning of a call.
func (r *recorder) begin(key string, fill func(tr *trace, e *event)) (*trace, *event) {
	tr := r.traces[key]
	if tr == nil {
		tr = &trace{owners: make(map[string]int), fingerprints: make(map[store.Fingerprint]int)}
		r.traces[key] = tr
	}
	r.calls++
	e := &event{Begin: true, ID: r.calls, At: r.now(), Answer: "unknown"}
	fill(tr, e)
	tr.events = append(tr.events, e)
	return tr, e
}

// end records the end of a call. A call without an answer has none: it may take effect later.
func (r *recorder) end(tr *trace, e *event, answer string, got *store.Entry) {
	if answer == "" {
		return
	}
	if e.Answer = answer; got != nil {
		e.Got, e.entryState = true, r.state(tr, got)
	}
	tr.events = append(tr.events, &event{ID: e.ID, At: r.now()})
}

// call is a call in progress.
type call struct {
	tr *trace
	e  *event
}

// Claim implements store.Store.
func (r *recorder) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	calls := make([]call, len(reqs))
	r.mu.Lock()
	for i := range reqs {
		calls[i].tr, calls[i].e = r.begin(reqs[i].Key, func(tr *trace, e *event) { r.fillClaim(tr, e, "claim", &reqs[i]) })
	}
	r.mu.Unlock()
	results := r.harness.Store.Claim(ctx, reqs)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range results {
		tr, res := calls[i].tr, &results[i]
		tr.foreign = tr.foreign || errors.Is(res.Err, store.ErrForeignEntry)
		r.end(tr, calls[i].e, claimAnswer(res), &res.Entry)
	}
	return results
}

func (r *recorder) fillClaim(tr *trace, e *event, op string, req *store.ClaimRequest) {
	e.Op, e.Own, e.Fp, e.TakeOver, e.Redrive = op, tr.owner(req.Owner), tr.print(req.Fingerprint), req.TakeOver, r.token(req.Redrive)
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
	calls := make([]call, len(ss))
	r.mu.Lock()
	for i := range ss {
		calls[i].tr, calls[i].e = r.begin(ss[i].Key, func(tr *trace, e *event) { r.fillSettlement(tr, e, &ss[i]) })
	}
	r.mu.Unlock()
	errs := r.harness.Store.Settle(ctx, ss)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range ss {
		var err error
		if len(errs) > 0 {
			err = errs[i]
		}
		answer, got := settleAnswer(err)
		calls[i].tr.foreign = calls[i].tr.foreign || errors.Is(err, store.ErrForeignEntry)
		r.end(calls[i].tr, calls[i].e, answer, got)
	}
	return errs
}

func (r *recorder) fillSettlement(tr *trace, e *event, s *store.Settlement) {
	e.Op = s.Op.String()
	switch {
	case s.Claim != nil:
		r.fillClaim(tr, e, "commit", s.Claim)
	case s.Refund:
		e.Op = "unrun"
	}
	e.Own, e.Ver = tr.owner(s.Owner), r.token(s.Token)
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
	tr, e := r.begin(key, func(_ *trace, e *event) { e.Op = "get" })
	r.mu.Unlock()
	entry, err := r.admin().Get(ctx, key)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.end(tr, e, "found", &entry)
	case errors.Is(err, store.ErrNotFound):
		r.end(tr, e, "absent", nil)
	}
	tr.foreign = tr.foreign || errors.Is(err, store.ErrForeignEntry)
	return entry, err
}

// Delete implements store.Admin.
func (r *recorder) Delete(ctx context.Context, key string, token int64) error {
	r.mu.Lock()
	tr, e := r.begin(key, func(_ *trace, e *event) { e.Op, e.Ver = "delete", r.token(token) })
	r.mu.Unlock()
	err := r.admin().Delete(ctx, key, token)
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, got := settleAnswer(err)
	if errors.Is(err, store.ErrNotFound) {
		answer = "absent"
	}
	r.end(tr, e, answer, got)
	return err
}

// List implements store.Admin.
func (r *recorder) List(ctx context.Context, q store.ListQuery) iter.Seq2[store.Entry, error] {
	return r.admin().List(ctx, q)
}

func (r *recorder) admin() store.Admin {
	a, ok := r.harness.Store.(store.Admin)
	if !ok {
		panic(fmt.Sprintf("%T does not implement store.Admin", r.harness.Store))
	}
	return a
}

// write writes the traces.
func (r *recorder) write(tb testing.TB, dir string) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tr := range r.traces {
		if tr.foreign {
			continue
		}
		f, err := os.CreateTemp(dir, strings.NewReplacer("/", "_", "*", "_").Replace(tb.Name())+"-*.jsonl")
		if err != nil {
			tb.Fatal(err)
		}
		var text bytes.Buffer
		out := json.NewEncoder(&text)
		for _, e := range tr.events {
			if err := out.Encode(e); err != nil {
				tb.Fatal(err)
			}
		}
		if _, err := fmt.Fprintf(f, `{"skew":%d,"tolerance":%d,"phase":%d,"epoch":%d}`+"\n%s",
			r.harness.Skew.Milliseconds(), r.harness.Tolerance.Milliseconds(), r.began.UnixMilli()%1000, epoch, &text); err != nil {
			tb.Fatal(err)
		}
		if err := f.Close(); err != nil {
			tb.Fatal(err)
		}
	}
}
