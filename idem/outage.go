package idem

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// ErrHandlerDown means that a task was not tried, or that its attempt was given back, because the handler fails for all tasks: the first attempts of
// Config.OutageFailures different keys failed, and no task succeeded between them.
var ErrHandlerDown = errors.New("idem: the handler fails for all tasks")

// The pauses between two tries of the handler during an outage. Each is twice as long as the one before, less a random part of up to a quarter.
const (
	firstTry = time.Second
	lastTry  = time.Minute
)

// outage recognises an outage of what the handler needs, for example of an API that is down. It then gives back attempts, and lets one task at a time
// try the handler, until one succeeds.
//
// Only the first attempt of a key is evidence, and each key counts once: bad messages that are tried again and again are none. During the outage a key
// that has failed waits twice as long as others, so that a bad message at the head of its lane does not take each try.
type outage struct {
	failures int           // Config.OutageFailures
	limit    time.Duration // Config.OutageLimit
	lease    time.Duration

	// healthy is set while no failure is counted, so that handlers do not wait for the mutex.
	healthy atomic.Bool

	mu     sync.Mutex
	failed map[string]bool // the keys whose first attempt failed since the last success, and, during an outage, those that were tried
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
	o := &outage{failures: cfg.OutageFailures, limit: max(0, cfg.OutageLimit), lease: cfg.Lease}
	o.healthy.Store(true)
	return o
}

// wait returns how long no task can try the handler, and whether there is an outage.
func (o *outage) wait(now time.Time) (wait time.Duration, down bool) {
	if o == nil || o.healthy.Load() {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.left(now), o.holds(now)
}

// holdsBack returns the error of tasks for which no claim is sent, because none of them can try the handler now.
func (o *outage) holdsBack(now time.Time) (err error, held bool) {
	if o == nil || o.healthy.Load() {
		return nil, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left(now) == 0 {
		return nil, false
	}
	return o.error("not tried"), true
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

// begin asks whether a task may call the handler. If not, it returns how long the task must wait at least.
func (o *outage) begin(key string, now time.Time) (wait time.Duration, err error) {
	if o == nil || o.healthy.Load() {
		return 0, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.holds(now) {
		return 0, nil
	}
	wait = o.left(now)
	if o.failed[key] && o.trying == "" {
		wait = o.next.Add(o.pause).Sub(now)
	}
	if wait > 0 {
		return wait, o.error("not tried")
	}
	o.trying, o.lapses = key, now.Add(max(o.lease, o.pause))
	return 0, nil
}

// succeeded ends an outage.
func (o *outage) succeeded() {
	if o == nil || o.healthy.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.failed)
	o.last, o.since, o.trying = nil, time.Time{}, ""
	o.healthy.Store(true)
}

// undecided is the end of a task that says nothing about the handler's dependencies: the error was permanent, or the caller cancelled it.
func (o *outage) undecided(key string) {
	if o == nil || o.healthy.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.trying == key {
		o.trying = ""
	}
}

// failedBy counts a failed attempt at a key. During an outage, and if it begins with this attempt, it returns the error of a task whose
// attempt is given back, and how long no task can try the handler.
func (o *outage) failedBy(key string, attempt int, now time.Time, err error) (down error, wait time.Duration) {
	if o == nil {
		return nil, 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.since.IsZero() && !o.holds(now):
		return nil, 0
	case !o.since.IsZero():
		o.fail(key)
		if o.trying == key {
			o.trying, o.pause = "", min(2*o.pause, lastTry) //nolint:mnd // see firstTry
			o.schedule(now)
		}
	case attempt > 1:
		return nil, 0
	default:
		o.fail(key)
		o.healthy.Store(false)
		if o.last = err; len(o.failed) < o.failures {
			return nil, 0
		}
		o.since, o.pause = now, firstTry
		o.schedule(now)
	}
	o.last = err
	return fmt.Errorf("%w: %w", o.error("the attempt is not counted"), err), o.left(now)
}

func (o *outage) fail(key string) {
	if o.failed == nil {
		o.failed = make(map[string]bool)
	}
	o.failed[key] = true
}

func (o *outage) schedule(now time.Time) {
	o.next = now.Add(o.pause - rand.N(o.pause/jitterShare)) //nolint:gosec // jitter needs no cryptographic randomness
}

// error describes the outage. what is what it means for the task.
func (o *outage) error(what string) error {
	return &outageError{since: o.since, next: o.next, what: what, last: failureOf(o.last).Message}
}

// outageError is ErrHandlerDown with the outage.
type outageError struct {
	since, next time.Time
	what, last  string
}

func (e *outageError) Error() string {
	return fmt.Sprintf("%v, since %s: %s; one is tried from %s on; the last failure: %s",
		ErrHandlerDown, e.since.UTC().Format(time.RFC3339), e.what, e.next.UTC().Format(time.RFC3339), e.last)
}

func (e *outageError) Is(target error) bool { return target == ErrHandlerDown }
