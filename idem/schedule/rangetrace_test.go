package schedule_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
)

// rangeEvent is a line of a trace of claims by range: see docs/spec/tracepartition.tla. Records and positions
// count from 1 there.
type rangeEvent struct {
	Op     string `json:"op"`
	Inv    int    `json:"inv"` // the invocation, or the consumer process
	P      string `json:"p"`   // the partition
	Inc    int    `json:"inc"` // the incarnation of the topic
	From   int    `json:"from"`
	To     int    `json:"to"`
	I      int    `json:"i"` // the record
	A      string `json:"a"` // its key
	By     string `json:"by"`
	Own    int    `json:"own"` // a number for each owner
	Tok    int64  `json:"tok"` // since the trace began, in ms
	Att    int    `json:"att"`
	End    int64  `json:"end"` // of the request
	Answer string `json:"answer"`
	Lost   bool   `json:"lost"` // the answer does not arrive

	// the entry after it
	GotSt   string `json:"gotSt"`
	GotOwn  int    `json:"gotOwn"`
	GotTok  int64  `json:"gotTok"`
	GotAtt  int    `json:"gotAtt"`
	GotRel  bool   `json:"gotRel"`
	GotTill int64  `json:"gotTill"`
	GotEnd  int64  `json:"gotEnd"`
}

// recordsOf returns the keys of a partition's records in docs/spec/partition.tla. inc is 2 after the topic
// was deleted and created again.
func recordsOf(p string, inc int) string {
	switch {
	case inc == 2: //nolint:mnd // the second topic
		return "GA"
	case p == "p":
		return "ABECB"
	}
	return "CD"
}

// rangeRecorder records what a store did for owners of partitions, and what these did.
type rangeRecorder struct {
	*testing.T
	recorder[*rangeEvent]
	store  *memstore.Store
	stream bool
	stride int64 // between the positions of two records
	begun  time.Time
	lossy  float64 // the probability that an owner's network loses requests and answers

	// guarded by mu
	invocations int
	owners      map[string]*rangeOwner
	over        map[string]time.Time // the end of the lease that was recorded last, by key
	want        string               // the keys that are to be final
}

// rangeOwner is who has the name of an owner.
type rangeOwner struct{ number, inv, record int }

func newRangeRecorder(t *testing.T, seed uint64, stream bool) *rangeRecorder {
	r := &rangeRecorder{
		T: t, store: memstore.New(memstore.Config{BatchSize: 25, MaxClockSkew: -1}), stream: stream,
		stride: 1, begun: time.Now().Add(-time.Second), lossy: 0.3,
		recorder: recorder[*rangeEvent]{rand: rand.New(rand.NewPCG(seed, 1))}, owners: map[string]*rangeOwner{"": {}},
		over: make(map[string]time.Time),
	}
	if stream {
		r.stride = 1000 // so that a process writes the end of its range again
	}
	return r
}

// index returns how many records have positions before this one.
func (r *rangeRecorder) index(position int64) int64 { return (position + r.stride - 1) / r.stride }

func (r *rangeRecorder) token(token int64) int64 {
	if token == 0 {
		return 0
	}
	return token - r.begun.UnixMilli()
}

func (r *rangeRecorder) note(e *rangeEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leasesOver()
	r.events = append(r.events, e)
}

// leasesOver records the leases that have ended. r.mu is held.
func (r *rangeRecorder) leasesOver() {
	now := time.Now()
	for entry := range r.store.List(context.Background(),
		store.ListQuery{Status: store.StatusStarted, Leases: true}) {
		if entry.Released() || now.Before(entry.LeaseUntil) || r.over[entry.Key].Equal(entry.LeaseUntil) {
			continue
		}
		r.over[entry.Key] = entry.LeaseUntil
		p, isLease := strings.CutPrefix(entry.Key, "lease-")
		e := &rangeEvent{Op: "over", P: p}
		if !isLease {
			e.P, e.A = "", entry.Key
		}
		r.events = append(r.events, e)
	}
}

// begin begins an invocation or a process, and returns its number.
func (r *rangeRecorder) begin(p string, inc, from, to int) int {
	r.mu.Lock()
	r.invocations++
	n := r.invocations
	r.mu.Unlock()
	r.note(&rangeEvent{Op: "begin", Inv: n, P: p, Inc: inc, From: from, To: to})
	return n
}

// owned returns who has the name of an owner. r.mu is held.
func (r *rangeRecorder) owned(owner string) *rangeOwner {
	if r.owners[owner] == nil {
		r.owners[owner] = &rangeOwner{number: len(r.owners)}
	}
	return r.owners[owner]
}

// seen adds the entry of a key after a call. r.mu is held.
func (r *rangeRecorder) seen(e *rangeEvent, key string) {
	entry, err := r.store.Get(context.Background(), key)
	if err != nil {
		e.GotSt = "A"
		return
	}
	e.GotSt, e.GotOwn, e.GotTok, e.GotAtt, e.GotRel = string(entry.Status[0]), r.owned(entry.Owner).number,
		r.token(entry.Token), entry.Attempts, entry.Released()
	if kept := entry.Range; kept != nil {
		e.GotTill, e.GotEnd = r.index(kept.Till), r.index(kept.End)
	}
}

// write writes the trace into a folder, unless that is empty.
func (r *rangeRecorder) write(dir string) {
	writeTrace(r.T, dir, "partition-*.jsonl", map[string]bool{"stream": r.stream}, r.events)
}

// rangeNetwork is the store as an invocation or a consumer process sees it: over a network that loses
// requests and answers.
type rangeNetwork struct {
	*rangeRecorder
	inv      int
	inc      int
	lanes    bool      // a lane for each key
	loss     float64   // the probability that an answer is lost
	from, to time.Time // between them nothing is sent, and no answer arrives; guarded by mu
	leases   bool      // except requests for leases
}

// cutOff cuts the network off for a time.
func (s *rangeNetwork) cutOff(in, d time.Duration, leases bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.leases = time.Now().Add(in), leases
	s.to = s.from.Add(d)
}

func (s *rangeNetwork) isCutOff(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	return !now.Before(s.from) && now.Before(s.to) && (!s.leases || !isLease(key))
}

func isLease(key string) bool { return strings.HasPrefix(key, "lease-") }

// send sends a request that may be lost, or whose answer may be. key is the first one of the request.
func (s *rangeNetwork) send(ctx context.Context, key string, request func(lost bool)) error {
	pass(s.between(0, 3))
	if ctx.Err() != nil || s.isCutOff(key) || s.chance(s.loss/2) { //nolint:mnd // requests are lost less often
		return errCutOff
	}
	lost := s.chance(s.loss)
	s.mu.Lock()
	s.leasesOver()
	request(lost)
	s.mu.Unlock()
	pass(s.between(0, 3))
	if lost || s.isCutOff(key) {
		return errCutOff
	}
	return nil
}

// record returns the record of a source, counted from 1.
func (s *rangeNetwork) record(source string) int {
	_, offset, _ := strings.Cut(source, "@")
	n, err := strconv.ParseInt(offset, 10, 64)
	if err != nil {
		s.Error(err)
	}
	return int(s.index(n)) + 1
}

// event returns an event of a request for a key. s.mu is held.
func (s *rangeNetwork) event(op, answer, key string, lost bool) *rangeEvent {
	e := &rangeEvent{Op: op, Inv: s.inv, A: key, Answer: answer, Lost: lost}
	s.seen(e, key)
	s.events = append(s.events, e)
	return e
}

// Claim implements store.Store.
func (s *rangeNetwork) Claim(ctx context.Context, reqs []store.ClaimRequest) (results []store.ClaimResult) {
	err := s.send(ctx, reqs[0].Key, func(lost bool) {
		results = s.store.Claim(context.WithoutCancel(ctx), reqs)
		for i := range reqs {
			req, res := &reqs[i], &results[i]
			if res.Err != nil {
				s.Errorf("claim of %s: %v", req.Key, res.Err)
			}
			e := s.event("claim", map[store.ClaimState]string{store.Claimed: "claimed",
				store.ClaimInFlight:  "inFlight",
				store.ClaimLeaseOver: "leaseOver", store.ClaimCompleted: "C",
				store.ClaimFailed: "F"}[res.State], req.Key, lost)
			owner := s.owned(req.Owner)
			e.Own = owner.number
			if req.Range != nil {
				e.Op, e.End = "take", s.index(req.Range.End)
				continue
			}
			owner.inv, owner.record = s.inv, s.record(req.Source)
			e.I = owner.record
		}
	})
	if err != nil {
		return failed(len(reqs), err)
	}
	return results
}

// Look implements store.Ranger.
func (s *rangeNetwork) Look(ctx context.Context, reqs []store.ClaimRequest) (results []store.ClaimResult) {
	err := s.send(ctx, reqs[0].Key, func(lost bool) {
		results = s.store.Look(context.WithoutCancel(ctx), reqs)
		for i := range reqs {
			answer := "S"
			switch res := &results[i]; {
			case res.State == store.ClaimCompleted:
				answer = "C"
			case res.State == store.ClaimFailed:
				answer = "F"
			case res.State == store.ClaimUnknown && res.Entry.Status == "":
				answer = "A"
			}
			e := s.event("look", answer, reqs[i].Key, lost)
			e.I, e.Tok = s.record(reqs[i].Source), s.token(results[i].Entry.Token)
		}
	})
	if err != nil {
		return failed(len(reqs), err)
	}
	return results
}

// BatchSize implements store.Batcher.
func (s *rangeNetwork) BatchSize() int { return s.store.BatchSize() }

// Settle implements store.Store.
func (s *rangeNetwork) Settle(ctx context.Context, ss []store.Settlement) (errs []error) {
	err := s.send(ctx, ss[0].Key, func(lost bool) {
		if errs = s.store.Settle(context.WithoutCancel(ctx), ss); errs == nil {
			errs = make([]error, len(ss))
		}
		for i := range ss {
			s.settled(&ss[i], errs[i], lost)
		}
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(ss))
	}
	return errs
}

// settled records a settlement. s.mu is held.
func (s *rangeNetwork) settled(set *store.Settlement, err error, lost bool) {
	answer := "ok"
	var refused *store.ClaimRefusedError
	switch {
	case errors.Is(err, store.ErrFenced) || errors.As(err, &refused):
		answer = "fenced"
	case err != nil:
		s.Errorf("%s of %s: %v", set.Op, set.Key, err)
	}
	op := map[store.SettleOp]string{store.OpComplete: "complete", store.OpFail: "failed",
		store.OpRelease: "retry", store.OpExtend: "extend"}[set.Op]
	switch {
	case isLease(set.Key) && set.Op == store.OpRelease:
		op = "free"
	case isLease(set.Key) && set.Range != nil:
		op = "reserve"
	case isLease(set.Key):
		op = "lease"
	case set.Refund:
		op = "refund"
	}
	owner := s.owned(set.Owner)
	e := s.event(op, answer, set.Key, lost)
	e.Own, e.Tok, e.By, e.I = owner.number, s.token(set.Token), "key", owner.record
	if set.Claim != nil {
		e.By, e.I = "lease", s.record(set.Claim.Source)
	}
	if kept := set.Range; kept != nil {
		e.End = s.index(kept.End)
	}
}
