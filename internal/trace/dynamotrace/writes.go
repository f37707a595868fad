// Package dynamotrace makes traces (internal/trace/keytrace) of what the in-process DynamoDB did to the keys
// of a table.
package dynamotrace

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/trace/keytrace"
)

// Attributes of the items of dynamostore.
const (
	attrStatus, attrToken, attrOwner, attrAttempts = "status", "version", "owner", "attempts"
	attrLease, attrRetry, attrExpiry               = "leaseUntil", "retryAt", "expiryTimestamp"
	attrFingerprint                                = "requestFingerprint"
)

// OneMachine is the maximum difference between the clocks of processes and of a table on the same machine.
const OneMachine = 10 * time.Millisecond

// maxWritten is the maximum number of keys whose writes are kept.
const maxWritten = 100_000

// Writes makes traces of what a table of dynamostore did, for processes whose calls can't be recorded, such
// as those of an application: each write that was performed is a call that began and ended at that time, and
// whose answer is the item that it left. So the model must have each change of an item, at a time at which it
// is allowed: but a request that was refused, and what an owner was told, are not in it.
type Writes struct {
	table string
	now   func() time.Time
	began time.Time
	clock keytrace.Clock

	mu   sync.Mutex
	keys map[string][]*keytrace.Event
}

// NewWrites returns a Writes without traces, for a table and its clock.
func NewWrites(table string, now func() time.Time) *Writes {
	began := now()
	return &Writes{table: table, now: now, began: began, clock: keytrace.Clock(began),
		keys: make(map[string][]*keytrace.Event)}
}

// Observe adds a write. It is a dynamofake.Config.Observe.
func (s *Writes) Observe(w *dynamofake.Write) {
	if w.Table != s.table || w.Refused {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.keys[w.Key]
	if events == nil && len(s.keys) == maxWritten {
		return
	}
	now := s.clock.At(s.now())
	e := s.event(w, now)
	e.ID = len(events)/2 + 1
	// w.Key is a part of a request's whole body
	s.keys[strings.Clone(w.Key)] = append(events, e, &keytrace.Event{ID: e.ID, At: now})
}

// event returns the call of a write. What its caller asked for follows from the item that it left.
func (s *Writes) event(w *dynamofake.Write, now int64) *keytrace.Event {
	before, after := entry(w.Before), entry(w.After)
	e := &keytrace.Event{Begin: true, At: now, Got: true, State: s.clock.State(&after)}
	e.Op, e.Answer = operation(&before, &after)
	e.Own, e.Ver, e.Fp = e.Owner, e.Token, e.Print
	switch e.Op {
	case "claim":
		e.TakeOver = e.Answer == "stolen"
		if before.Status == store.StatusFailed {
			e.Redrive = s.clock.Token(before.Token)
		}
		if before.Status == "" { // the first token is the time at which the owner made its request
			e.At = max(0, min(now, s.clock.At(time.UnixMilli(after.Token))))
		}
		e.Lease, e.Retention = e.Until-e.At, e.Expiry-e.Until
	case "extend":
		e.Lease, e.Retention = e.Until-now, e.Expiry-e.Until
	case "release", "unrun":
		e.Delay, e.Retention = e.Until-now, e.Expiry-e.Until
	case "delete":
		e.Ver, e.Got = s.clock.Token(before.Token), false
	default:
		e.Retention = e.Expiry - now
	}
	return e
}

// operation returns the call that made an entry from another, and its answer.
func operation(before, after *store.Entry) (op, answer string) {
	same := before.Status == store.StatusStarted && before.Owner == after.Owner && before.Token == after.Token
	switch {
	case after.Status == "":
		return "delete", "ok"
	case after.Status == store.StatusCompleted:
		return "complete", "ok"
	case after.Status == store.StatusFailed:
		return "fail", "ok"
	case after.Released() && same && after.Attempts < before.Attempts:
		return "unrun", "ok"
	case after.Released():
		return "release", "ok"
	case same:
		return "extend", "ok"
	case before.Held():
		return "claim", "stolen"
	}
	return "claim", "claimed"
}

// entry returns the entry of an item, without what the model does not have.
func entry(attribute func(path ...string) string) (e store.Entry) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(attribute(name), 10, 64) // of another program's item: 0
		return n
	}
	e.Status, e.Owner = store.Status(attribute(attrStatus)), attribute(attrOwner)
	e.Token, e.Attempts = number(attrToken), int(number(attrAttempts))
	e.LeaseUntil, e.Expiry = time.UnixMilli(number(attrLease)), time.Unix(number(attrExpiry), 0)
	if at := number(attrRetry); at != 0 {
		e.RetryAt = time.UnixMilli(at)
	}
	copy(e.Fingerprint[:], attribute(attrFingerprint))
	return e
}

// Save writes the traces of the keys with the most writes, up to keytrace.MaxOfProcesses, and returns their
// number.
func (s *Writes) Save(to keytrace.Config) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to.Began = s.began
	for _, key := range slices.SortedFunc(maps.Keys(s.keys), func(a, b string) int {
		return cmp.Or(len(s.keys[b])-len(s.keys[a]), cmp.Compare(a, b))
	}) {
		if n == keytrace.MaxOfProcesses {
			break
		}
		if err := to.Write(s.keys[key]); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
