package local

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Counts are the counts of a run. With consumer processes, Started is set, and the counts of invocations and
// batches are not: Failed is the number of processes that ended by themselves, and Concurrent that of paused
// ones.
type Counts struct {
	Started     int // processes of a consumer group
	Invocations int
	Failed      int // of those: the function returned an error, exceeded its timeout or died
	Injected    int // of those: by an injected fault
	Unreadable  int // of the others: the answer was not a partial batch response
	Delivered   int // deliveries of records
	Done        int // records of committed batches, except those that were given up
	Named       int // records that answers named as failed
	Ignored     int // records that answers named as failed without ReportBatchItemFailures: they are lost
	Filtered    int // records
	Bisected    int // batches
	Redelivered int // batches, by a fault
	Concurrent  int // invocations that went to two processes, by a fault
	GivenUp     map[string]int
	Sent        int // records that were given up and sent to the on-failure destination
	Lost        int // records that were given up without a destination
	Outcomes    metrics.Outcomes
	Reports     int // lines with metrics in the function's output
	// when the metrics first told of an outage of what the handler needs; zero: there is none
	DownSince time.Time
	Kills     []verify.Kill
	LastError string // the last failure that was not injected, with its batch; not escaped
}

// OwnFailures returns the number of invocations that failed without an injected fault.
func (c *Counts) OwnFailures() int { return c.Failed - c.Injected }

// Gone returns the number of lost records: given up without a destination, or named as failed without
// ReportBatchItemFailures.
func (c *Counts) Gone() int { return c.Lost + c.Ignored }

// down describes an outage of what the handler needs; "" if there is none.
func (c *Counts) down(now time.Time) string {
	if c.DownSince.IsZero() {
		return ""
	}
	return fmt.Sprintf("the handler has failed for all records for %s",
		now.Sub(c.DownSince).Round(time.Second))
}

// found takes what happened since the metrics before these.
func (c *Counts) found(down, executed int, now time.Time) {
	switch {
	case down == 0 && executed > 0:
		c.DownSince = time.Time{}
	case down > 0 && c.DownSince.IsZero():
		c.DownSince = now
	}
}

// tally counts the events of a mapping, and the metrics in the function's output.
type tally struct {
	fail func(error) // ends the run
	say  func(line string)
	// recorded is true if recorded events are delivered. Then say gets each answer.
	recorded bool

	warnIgnored sync.Once

	mu       sync.Mutex
	counts   Counts
	begun    time.Time
	first    time.Time // the first invocation's end
	answered bool      // an answer was parsed
	garbage  int       // answers that could not be parsed
}

// maxGarbage is the number of unparsable answers that end the run, if no answer could be parsed before.
const maxGarbage = 3

// observe takes an event of the mapping.
func (t *tally) observe(e esm.Event) {
	switch e.Kind { //nolint:exhaustive // without the lock, because say may wait for a view that reads the counts
	case esm.Enabled:
		t.say("The event source mapping is enabled again.")
	case esm.Disabled:
		t.say("The event source mapping is disabled: running invocations finish, and no records are read or retried.")
	case esm.Invoked:
		if t.recorded {
			t.say(answerLine(&e))
		}
	case esm.Ignored:
		t.warnIgnored.Do(func() {
			t.say("WARNING: the function names records that failed, and the event source is without ReportBatchItemFailures: there any answer is " +
				"a success on AWS, and these records are lost. Give --function-response-types ReportBatchItemFailures, or IDEMSK_FAILURES=batch to the function.")
		})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := &t.counts
	switch e.Kind {
	case esm.Invoked:
		t.invoked(&e)
	case esm.Misanswered:
		c.Unreadable++
		t.misanswered(e.Err)
	case esm.Named:
		c.Named += e.Records
		t.answered = true
	case esm.Ignored:
		c.Ignored += e.Records
	case esm.Bisected:
		c.Bisected++
	case esm.GivenUp:
		if c.GivenUp == nil {
			c.GivenUp = make(map[string]int)
		}
		c.GivenUp[e.Condition] += e.Records
		if e.Sent {
			c.Sent += e.Records
		} else {
			c.Lost += e.Records
		}
	case esm.Filtered:
		c.Filtered += e.Records
	case esm.Redelivered:
		c.Redelivered++
	case esm.Unavailable:
		c.LastError = e.Err.Error()
	case esm.Committed:
		c.Done += e.Records
		t.answered = t.answered || e.Records > 0
	case esm.Enabled, esm.Disabled:
	}
}

func (t *tally) invoked(e *esm.Event) {
	t.counts.Invocations++
	t.counts.Delivered += e.Records
	if t.first.IsZero() {
		t.first = time.Now()
	}
	switch {
	case e.Injected:
		t.counts.Failed++
		t.counts.Injected++
	case e.Err != nil:
		t.counts.Failed++
		t.counts.LastError = e.Batch + ": " + withoutID(e.Err.Error())
	}
}

// answerLine describes the function's answer to an event.
func answerLine(e *esm.Event) string {
	came := "answered " + string(e.Answer)
	switch {
	case e.Injected:
		came = "killed"
	case e.Err != nil:
		came = "failed: " + withoutID(e.Err.Error())
	}
	return term.Escape(e.Batch) + ": " + term.Plural(e.Records, "record", "records") + ", " +
		term.Cut(term.Escape(came), lineError)
}

// lineError is the maximum number of runes of an error in a line.
const lineError = 200

// withoutID removes the request ID from a message of Lambda. The batch identifies the invocation.
func withoutID(message string) string {
	before, rest, found := strings.Cut(message, "RequestId: ")
	if !found {
		return message
	}
	_, rest, _ = strings.Cut(rest, " ")
	return before + strings.TrimPrefix(rest, "Error: ")
}

// misanswered ends the run after maxGarbage answers if no answer could be parsed.
func (t *tally) misanswered(err error) {
	t.counts.LastError = err.Error()
	if t.garbage++; !t.answered && t.garbage == maxGarbage {
		t.fail(fmt.Errorf("the function's first %d responses can't be read: %w; fix it, or leave --function-response-types out: "+
			"then any answer is a success", maxGarbage, err))
	}
}

// printed counts the metrics in a line of the function's standard output.
func (t *tally) printed(line []byte) {
	if o, ok := metrics.Parse(line); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.counts.Outcomes.Add(&o)
		t.counts.found(o.HandlerDown, o.Executed, time.Now())
		t.counts.Reports++
	}
}

// handled takes what the processes of a consumer group have counted since they began.
func (t *tally) handled(o *metrics.Outcomes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.counts.Outcomes
	t.counts.found(o.HandlerDown-before.HandlerDown, o.Executed-before.Executed, time.Now())
	t.counts.Outcomes, t.counts.Reports = *o, 1
	least, _ := o.Sum()
	t.counts.Delivered = least - o.InFlight - toRetry(o) // those are tried again
	if t.first.IsZero() && t.counts.Delivered > 0 {
		t.first = time.Now()
	}
}

// note changes the counts.
func (t *tally) note(change func(c *Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.counts)
}

func (t *tally) concurrent() { t.note(func(c *Counts) { c.Concurrent++ }) }

func (t *tally) killed(k verify.Kill) { t.note(func(c *Counts) { c.Kills = append(c.Kills, k) }) }

// snapshot returns the current counts.
func (t *tally) snapshot() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.GivenUp = maps.Clone(c.GivenUp)
	return c
}
