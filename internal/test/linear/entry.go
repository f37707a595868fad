package linear

import (
	"math"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// span is a time or a token between two bounds, in milliseconds since the epoch.
type span struct{ lo, hi int64 }

// never is later than all times, with room for additions.
const never = math.MaxInt64 / 4

func exactly(ms int64) span { return span{ms, ms} }

func (s span) has(ms int64) bool { return s.lo <= ms && ms <= s.hi }

func (s span) plus(d time.Duration) span {
	return span{s.lo + d.Milliseconds(), s.hi + d.Milliseconds()}
}

// since is the part of s that is not before the earliest t.
func (s span) since(t span) span { return span{max(s.lo, t.lo), s.hi} }

func (s span) next() span { return span{s.lo + 1, s.hi + 1} }

// ceil rounds up to whole seconds.
func (s span) ceil() span { return span{ceil(s.lo), ceil(s.hi)} }

func ceil(ms int64) int64 {
	const second = 1000
	return (ms + second - 1) / second * second
}

// entry is a state of the model: what is known of the entry of a key. The zero value means that there is
// none.
type entry struct {
	status                         store.Status
	token                          span
	owner, source, result, failure string
	attempts                       int
	print                          store.Fingerprint
	released                       bool
	lease, retry                   span // the end of the lease; of the delay, if released
	created, updated, expiry       span

	effects int // the counter of the key, which stays when the entry is deleted
}

// gone returns the state after the entry is deleted.
func (e entry) gone() entry { return entry{effects: e.effects} }

func (e entry) absent() bool { return e.status == "" }

// held reports whether the key is STARTED and not released.
func (e entry) held() bool { return e.status == store.StatusStarted && !e.released }

// until is the time from which on others may take a STARTED key.
func (e entry) until(skew time.Duration) span {
	if e.released {
		return e.retry
	}
	return e.lease.plus(skew)
}

// observe returns the entry with the exact values of an answer. ok is false if the answer shows another
// entry.
func (e entry) observe(got *store.Entry) (exact entry, ok bool) {
	if e.absent() || got.Status == "" {
		return e, e.absent() && got.Status == ""
	}
	if got.Status != e.status || got.Owner != e.owner || got.Source != e.source ||
		got.Attempts != e.attempts || got.Fingerprint != e.print ||
		string(got.Result) != e.result || textOf(got.Failure) != e.failure || got.Released() != e.released {
		return e, false
	}
	type observed struct {
		known *span
		seen  int64
	}
	times := []observed{
		{&e.token, got.Token},
		{&e.created, got.CreatedAt.UnixMilli()},
		{&e.updated, got.UpdatedAt.UnixMilli()}, {&e.expiry, got.Expiry.UnixMilli()},
	}
	switch {
	case e.released:
		times = append(times, observed{&e.retry, got.RetryAt.UnixMilli()})
	case e.status == store.StatusStarted: // otherwise the end of the lease means nothing
		times = append(times, observed{&e.lease, got.LeaseUntil.UnixMilli()})
	}
	for _, t := range times {
		if !t.known.has(t.seen) {
			return e, false
		}
		*t.known = exactly(t.seen)
	}
	return e, true
}

func textOf(f *store.Failure) string {
	if f == nil {
		return ""
	}
	return f.Code + ": " + f.Message
}

// byToken returns the entry with the token, if it can have this token, and the entry with another one, if it
// can have another one.
func (e entry) byToken(token int64) (same, other []entry) {
	if e.token != exactly(token) {
		other = []entry{e}
	}
	if e.token.has(token) {
		e.token = exactly(token)
		same = []entry{e}
	}
	return same, other
}
