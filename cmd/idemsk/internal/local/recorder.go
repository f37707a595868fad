package local

import (
	"bytes"
	"container/list"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// Bounds of the invocations that a recorder keeps. Older ones are dropped, and counted.
const (
	maxInvocations = 400
	maxPayloads    = 64 << 20  // bytes
	maxText        = 256 << 10 // bytes of an event, an answer or a log
	maxRates       = 120       // seconds
)

// recorder keeps what the page shows: the invocations, and the history of the keys in the DynamoDB in this
// process.
type recorder struct {
	table string // of the keys
	armed *armed

	mu    sync.Mutex
	keys  map[string]*keyHistory
	order *list.List // of *keyHistory: that which changed last is the last one
	// the number of all keys in each state, also of those that were forgotten; a lease that is over is in
	// flight
	states                 map[string]int
	forgotten              int
	places                 map[mskevent.Place]*keyHistory
	slots                  map[string]*slot // by access key ID
	owners                 map[string]int   // processes without a slot
	processes              int
	bytes                  int // of payloads
	rates                  []int
	invocations            []*invocation // the oldest first
	numbered, dropped      int
	keyChanges, runChanges uint64
}

func newRecorder() *recorder {
	return &recorder{
		table: dynamostore.DefaultTable, armed: newArmed(), keys: make(map[string]*keyHistory),
		order:  list.New(),
		states: make(map[string]int), places: make(map[mskevent.Place]*keyHistory),
		slots: make(map[string]*slot), owners: make(map[string]int),
	}
}

// slot runs one invocation at a time, in one process after another. Its methods accept nil: nothing is
// recorded.
type slot struct {
	recorder *recorder
	id       string            // the access key ID of its processes: it tells whose request a write is
	process  *process          // nil: at an endpoint
	killed   func(verify.Kill) // called after a kill by a button
	labels   map[int]int       // of its processes, by their number in the slot
	current  *invocation
}

// invocation is a call of the function, and what is kept of it.
type invocation struct {
	console.Invocation
	slot      *slot
	poller    int
	begun     time.Time
	has       map[*keyHistory]bool
	delivered []esm.Record
	replay    bool   // by a button
	payload   []byte // whole, so that it can be delivered again
	answer    []byte
	log       []string
	logged    int // bytes
	cut       bool
	kill      bool // by a button
}

// newSlot returns a slot for an invoker.
func (r *recorder) newSlot(killed func(verify.Kill)) *slot {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &slot{recorder: r, id: testenv.AccessKeyID + strconv.Itoa(len(r.slots)+1), labels: make(map[int]int),
		killed: killed}
	r.slots[s.id] = s
	return s
}

// requesting returns the invocation that makes a request, and learns its process; nil if it is unknown.
func (r *recorder) requesting(client string) *invocation {
	s := r.slots[client]
	if s == nil || s.current == nil {
		return nil
	}
	s.label(s.current)
	return s.current
}

// label sets the process of an invocation. Processes are counted in the order in which they are first seen.
func (s *slot) label(in *invocation) {
	if in.Process != 0 || s.process == nil {
		return
	}
	n := s.process.number()
	if s.labels[n] == 0 {
		s.recorder.processes++
		s.labels[n] = s.recorder.processes
	}
	in.Process = s.labels[n]
}

// invoke records an invocation.
func (s *slot) invoke(ctx context.Context, inv *esm.Invocation,
	next func(context.Context, *esm.Invocation) (esm.Answer, error)) (esm.Answer, error) {
	if s == nil {
		return next(ctx, inv)
	}
	in := s.begin(inv)
	answer, err := next(ctx, inv)
	s.end(in, inv, &answer, err)
	return answer, err
}

func (s *slot) begin(inv *esm.Invocation) *invocation {
	r := s.recorder
	payload := bytes.Clone(inv.Payload)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.numbered++
	r.runChanges++
	now := time.Now()
	in := &invocation{slot: s, poller: inv.Poller, begun: now, has: make(map[*keyHistory]bool),
		payload: payload, delivered: inv.Delivered, replay: inv.Poller == esm.NoPoller,
		Invocation: console.Invocation{Number: r.numbered, Batch: inv.Batch, Try: inv.Number,
			Records: inv.Records, Begun: now.UnixMicro(), Took: -1, Outcome: console.OutcomeRunning}}
	if in.replay {
		in.Tags = []string{"delivered again by a button"}
	}
	s.current = in
	r.invocations = append(r.invocations, in)
	r.bytes += len(payload)
	for len(r.invocations) > maxInvocations || r.bytes > maxPayloads && len(r.invocations) > 1 {
		oldest := r.invocations[0]
		r.bytes -= len(oldest.payload)
		// histories of keys refer to it
		oldest.payload, oldest.delivered, oldest.answer, oldest.log = nil, nil, nil, nil
		r.invocations, r.dropped = r.invocations[1:], r.dropped+1
	}
	return in
}

func (s *slot) end(in *invocation, inv *esm.Invocation, answer *esm.Answer, err error) {
	r := s.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runChanges++
	s.label(in)
	in.Took, in.Outcome = time.Since(in.begun).Microseconds(), console.OutcomeOK
	in.answer = bytes.Clone(answer.Payload[:min(len(answer.Payload), maxText)])
	in.cut = in.cut || len(answer.Payload) > maxText
	switch {
	case answer.Injected:
		in.Outcome, in.Error = console.OutcomeKilled, answer.Message
	case err != nil:
		in.Outcome, in.Error = console.OutcomeFailed, err.Error()
	case answer.FunctionError != "":
		in.Outcome, in.Error = console.OutcomeFailed, withoutID(answer.Message)
	}
	now := time.Now().UnixMicro()
	if strings.HasPrefix(answer.Message, "Runtime.ExitError") {
		for k := range in.has {
			if k.holder == in && (k.status == store.StatusStarted || in.kill) {
				k.add(event{in: in, Event: console.Event{At: now, Kind: console.KindDied, Token: k.token,
					Until: k.until()}})
				r.keyChanges++
			}
		}
	}
	if in.Outcome == console.OutcomeOK {
		r.replayed(in, inv, now)
	}
	if in.kill && answer.Injected {
		s.killed(verify.Kill{Executor: answer.RequestID, Process: s.process.number(), During: in.Batch,
			At: time.Now()})
	}
	in.has = nil
	s.current = nil
}

// replayed notes the records whose key was completed before the invocation, which read that and wrote
// nothing.
func (r *recorder) replayed(in *invocation, inv *esm.Invocation, now int64) {
	if len(r.places) == 0 {
		return
	}
	for i := range inv.Delivered {
		k := r.places[inv.Delivered[i].Place()]
		if k == nil || k.status != store.StatusCompleted || in.has[k] || k.updated >= in.Begun {
			continue
		}
		k.delivered(in)
		k.replays++
		k.add(event{in: in, Event: console.Event{At: now, Kind: console.KindReplayed, Token: k.token,
			Attempts: k.attempts, Note: k.note}})
		r.keyChanges++
	}
}

// line keeps a line that a process of the slot printed.
func (s *slot) line(line []byte) {
	if s == nil {
		return
	}
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	in := s.current
	if in == nil {
		return
	}
	if in.logged += len(line); in.logged > maxText {
		in.cut = true
		return
	}
	in.log = append(in.log, strings.ToValidUTF8(string(line), "\uFFFD"))
}

// observeMapping tags the invocation that an event of the mapping is about, the last one of its poller.
func (r *recorder) observeMapping(e esm.Event) {
	tag := map[esm.Kind]string{
		esm.Bisected: "bisected", esm.Redelivered: "redelivered", esm.Misanswered: "answer not understood",
		esm.Named:   "named failed records",
		esm.Ignored: "lost records", esm.GivenUp: "given up",
	}[e.Kind]
	if tag == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range slices.Backward(r.invocations) {
		if in.poller == e.Poller && in.Batch == e.Batch && in.Took >= 0 {
			in.Tags = append(in.Tags, tag)
			r.runChanges++
			return
		}
	}
}

func (in *invocation) show() console.Invocation {
	out := in.Invocation
	out.Tags = append([]string{}, in.Tags...)
	return out
}

// Invocations implements console.Source.
func (r *recorder) Invocations() console.Invocations {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := console.Invocations{Dropped: r.dropped,
		Invocations: make([]console.Invocation, 0, len(r.invocations))}
	for _, in := range slices.Backward(r.invocations) {
		out.Invocations = append(out.Invocations, in.show())
	}
	return out
}

// find returns an invocation that is kept, or nil. The caller holds r.mu.
func (r *recorder) find(number int) *invocation {
	i := number - r.dropped - 1
	if i < 0 || i >= len(r.invocations) {
		return nil
	}
	return r.invocations[i]
}

// Invocation implements console.Source.
func (r *recorder) Invocation(number int) (console.Detail, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.find(number)
	if in == nil {
		return console.Detail{}, false
	}
	cut := in.cut || len(in.payload) > maxText
	return console.Detail{
		Invocation: in.show(), Outcomes: r.delivered(in), Event: string(in.payload[:min(len(in.payload), maxText)]),
		Answer: string(in.answer), Log: append([]string{}, in.log...), Cut: cut,
	}, true
}

// mark adds an event to the keys that an invocation holds.
func (r *recorder) mark(in *invocation, kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range in.has {
		if k.holder == in || kind == console.KindResumed {
			k.add(event{in: in, Event: console.Event{At: time.Now().UnixMicro(), Kind: kind, Token: k.token}})
		}
	}
	r.keyChanges++
}

// rate adds the number of records that were done in a second.
func (r *recorder) rate(done int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rates = append(r.rates, done); len(r.rates) > maxRates {
		r.rates = r.rates[1:]
	}
}
