package idem

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrHandlerDown means that a task was not tried, or that its attempt was given back, because the handler
// fails for all tasks: the first attempts of Config.OutageFailures different keys failed, and no task
// succeeded between them.
var ErrHandlerDown = errors.New("idem: the handler fails for all tasks")

// The pauses between two tries of the handler during an outage. Each is twice as long as the one before, less
// a random part of up to a quarter.
const (
	firstTry = time.Second
	lastTry  = time.Minute
)

// maxKnown bounds the memory for keys that have failed. One that is forgotten may be a sign of an outage once
// more.
const maxKnown = 10_000

// outage recognises an outage of what the handler needs, for example of an API that is down. It then gives
// back attempts, and lets one task at a time try the handler, until one succeeds.
//
// Each key is a sign of an outage once, by its first attempt. Otherwise bad messages that are tried again and
// again would look like one.
//
// During the outage, a key that has failed may try the handler the later, the less time has passed since it
// tried. Otherwise a bad message at the beginning of each batch would take each try.
type outage struct {
	failures int           // Config.OutageFailures
	limit    time.Duration // Config.OutageLimit
	lease    time.Duration

	// healthy is set while no key is remembered, so that handlers do not wait for the mutex.
	healthy atomic.Bool

	mu     sync.Mutex
	known  map[string]struct{} // keys that have failed and are not settled
	failed []string            // those that failed since the last success, the latest last
	last   error
	since  time.Time // when the outage was recognised; zero: there is none
	pause  time.Duration
	next   time.Time // when a task may try the handler
	trying string    // the key of the task that tries it
	lapses time.Time // when another task may, if the handler of that one has not returned
}

func newOutage(cfg *Config) *outage {
	if cfg.OutageFailures < 0 {
		return nil
	}
	o := &outage{failures: cfg.OutageFailures, limit: max(0, cfg.OutageLimit), lease: cfg.Lease,
		known: make(map[string]struct{})}
	o.healthy.Store(true)
	return o
}

// quiet reports whether nothing is to be decided or forgotten: no key is remembered, or outages are not
// recognised.
func (o *outage) quiet() bool { return o == nil || o.healthy.Load() }

// wait returns how long no task can try the handler, and whether there is an outage.
func (o *outage) wait(now time.Time) (wait time.Duration, down bool) {
	if o.quiet() {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.left(now), o.holds(now)
}

// holdsBack returns the error of tasks for which no claim is sent, because none of them can try the handler
// now.
func (o *outage) holdsBack(now time.Time) (err error, held bool) {
	if o.quiet() {
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left(now) == 0 {
		return nil, false
	}
	return o.notTried(), true
}

// left returns how long no task can try the handler.
func (o *outage) left(now time.Time) time.Duration {
	switch {
	case !o.holds(now):
		return 0
	case o.trying != "":
		return max(0, o.lapses.Sub(now))
	}
	return max(0, o.next.Sub(now))
}

// holds reports whether there is an outage that is not older than its limit.
func (o *outage) holds(now time.Time) bool {
	return !o.since.IsZero() && (o.limit == 0 || now.Sub(o.since) < o.limit)
}

// begin asks whether the task of a claim may call the handler. If not, it returns how long the task must wait
// at least.
func (o *outage) begin(claim *claim) (wait time.Duration, err error) {
	if o.quiet() || claim.Task.Rejected {
		return 0, nil
	}
	key, now := claim.key, time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.holds(now) {
		return 0, nil
	}
	wait = o.left(now)
	if o.trying == "" {
		wait = max(0, o.next.Add(o.turn(key)).Sub(now))
	}
	if wait > 0 {
		return wait, o.notTried()
	}
	o.trying, o.lapses = key, now.Add(max(o.lease, o.pause))
	return 0, nil
}

// turn returns how much later than others a key may try the handler: at once if it has not failed during the
// outage, after a pause if it was the last that failed.
func (o *outage) turn(key string) time.Duration {
	if i := slices.Index(o.failed, key); i >= 0 {
		return o.pause * time.Duration(i+1) / time.Duration(len(o.failed))
	}
	return 0
}

// succeeded ends an outage.
func (o *outage) succeeded(key string) {
	if o.quiet() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, key)
	o.failed, o.last, o.since, o.trying = o.failed[:0], nil, time.Time{}, ""
	o.healthy.Store(len(o.known) == 0)
}

// forget drops a key whose dead letter was sent.
func (o *outage) forget(key string) {
	if o.quiet() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, key)
	o.healthy.Store(len(o.known) == 0 && o.since.IsZero() && len(o.failed) == 0)
}

// undecided is the end of a task that says nothing about what the handler needs: the error was permanent, or
// the caller cancelled it.
func (o *outage) undecided(key string) {
	if o.quiet() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.trying == key {
		o.trying = ""
	}
}

// failedBy counts a failed attempt at a key. During an outage, and if it begins with this attempt, it returns
// how long no task can try the handler, and the error of a task whose attempt is given back.
func (o *outage) failedBy(key string, attempt int, now time.Time, err error) (wait time.Duration,
	down error) {
	if o == nil {
		return 0, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, before := o.known[key]
	o.remember(key)
	if (o.since.IsZero() && (before || attempt > 1)) || (!o.since.IsZero() && !o.holds(now)) {
		return 0, nil
	}
	o.failed, o.last = append(slices.DeleteFunc(o.failed, func(other string) bool { return other == key }),
		key), err
	switch {
	case o.since.IsZero() && len(o.failed) < o.failures:
		return 0, nil
	case o.since.IsZero():
		o.since, o.pause = now, firstTry
		o.schedule(now)
	case o.trying == key:
		o.trying, o.pause = "", min(2*o.pause, lastTry) //nolint:mnd // see firstTry
		o.schedule(now)
	}
	return o.left(now), fmt.Errorf("%w; this failure: %w",
		&outageError{since: o.since, next: o.next, what: "the attempt is not counted"}, err)
}

// remember remembers a key that has failed.
func (o *outage) remember(key string) {
	if len(o.known) >= maxKnown {
		clear(o.known)
	}
	o.known[key] = struct{}{}
	o.healthy.Store(false)
}

func (o *outage) schedule(now time.Time) {
	o.next = now.Add(jittered(o.pause))
}

// notTried describes the outage for a task whose handler was not called.
func (o *outage) notTried() error {
	return &outageError{since: o.since, next: o.next, what: "not tried", last: "; the last failure: " + failureOf(o.last).Message}
}

// outageError is ErrHandlerDown with the outage.
type outageError struct {
	since, next time.Time
	what        string // what it means for the task
	last        string // the failure that shows it, if it is another task's
}

func (e *outageError) Error() string {
	return fmt.Sprintf("%v, since %s: %s; one is tried from %s on%s",
		ErrHandlerDown, e.since.UTC().Format(time.RFC3339), e.what, e.next.UTC().Format(time.RFC3339), e.last)
}

func (e *outageError) Is(target error) bool { return target == ErrHandlerDown }
