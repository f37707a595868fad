package local

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/verify"
)

// Counts are what came of a run so far. With processes of a consumer group, Started is set, and nothing that is said of invocations and
// batches: then Failed counts processes that ended by themselves, and Concurrent those that were paused.
type Counts struct {
	Started     int // processes of a consumer group
	Invocations int
	Failed      int // of those: the function reported an error, ran out of its time or died
	Injected    int // of those: by one of the run's Faults
	Unreadable  int // of the others: answers that were no partial batch response
	Delivered   int // records, each time they were delivered
	Done        int // records of batches whose offsets are committed, without those that were given up
	Named       int // records that answers named as failed
	Ignored     int // records that answers named as failed without ReportBatchItemFailures: they are lost
	Filtered    int // records
	Bisected    int // batches
	Redelivered int // batches, as a fault
	Concurrent  int // invocations that were made twice at once, as a fault
	GivenUp     map[string]int
	Sent        int // records given up that the on-failure destination has
	Lost        int // records given up for which there was no destination
	Outcomes    metrics.Outcomes
	Reports     int // lines of metrics that the function printed
	Kills       []verify.Kill
	LastError   string // what the function's last failure was, of which batch, but for Injected ones; not escaped
}

// OwnFailures is how many invocations failed by no fault of the run.
func (c *Counts) OwnFailures() int { return c.Failed - c.Injected }

// Gone is how many records are lost: given up without a destination, or named as failed without ReportBatchItemFailures.
func (c *Counts) Gone() int { return c.Lost + c.Ignored }

// tally counts. It watches a mapping, and what the function prints.
type tally struct {
	fail func(error) // ends the run
	say  func(line string)
	// recorded says that events are delivered that were recorded: each answer is said.
	recorded bool

	warnIgnored sync.Once

	mu       sync.Mutex
	counts   Counts
	begun    time.Time
	first    time.Time // the first invocation's end
	answered bool      // an answer could be read, once
	garbage  int       // answers that could not, before that
}

// maxGarbage is how many answers in a row that can't be read, from the first one on, say that the function will not learn.
const maxGarbage = 3

// Observe implements esm.Observer.
func (t *tally) Observe(e esm.Event) {
	switch e.Kind { //nolint:exhaustive // what is said, without the lock: who shows it may be asking for the counts
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
			t.say("WARNING: the function names records that failed, and the event source is without ReportBatchItemFailures: there AWS takes any answer " +
				"for a success, and these records are lost. Give --function-response-types ReportBatchItemFailures, or IDEMSK_FAILURES=batch to the function.")
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

// answerLine says what the function made of an event.
func answerLine(e *esm.Event) string {
	came := "answered " + string(e.Answer)
	switch {
	case e.Injected:
		came = "killed"
	case e.Err != nil:
		came = "failed: " + withoutID(e.Err.Error())
	}
	return term.Escape(e.Batch) + ": " + term.Plural(e.Records, "record", "records") + ", " + term.Cut(term.Escape(came), lineError)
}

// withoutID leaves out the request ID that Lambda puts into messages of its own: the batch tells more.
func withoutID(message string) string {
	before, rest, found := strings.Cut(message, "RequestId: ")
	if !found {
		return message
	}
	_, rest, _ = strings.Cut(rest, " ")
	return before + strings.TrimPrefix(rest, "Error: ")
}

// misanswered ends the run if the function has never given an answer that could be read.
func (t *tally) misanswered(err error) {
	t.counts.LastError = err.Error()
	if t.garbage++; !t.answered && t.garbage == maxGarbage {
		t.fail(fmt.Errorf("the function's first %d responses can't be read: %w; fix it, or leave --function-response-types out: "+
			"then any answer is a success", maxGarbage, err))
	}
}

// printed takes a line of the function's standard output.
func (t *tally) printed(line []byte) {
	if o, ok := metrics.Parse(line); ok {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.counts.Outcomes.Add(&o)
		t.counts.Reports++
	}
}

// handled takes what the processes of a consumer group have counted since they began.
func (t *tally) handled(o *metrics.Outcomes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Outcomes, t.counts.Reports = *o, 1
	least, _ := o.Sum()
	t.counts.Delivered = least - o.InFlight - toRetry(o) // those are tried again
	if t.first.IsZero() && t.counts.Delivered > 0 {
		t.first = time.Now()
	}
}

func (t *tally) started() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Started++
}

// exited takes note of a process that ended by itself.
func (t *tally) exited(message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Failed++
	t.counts.LastError = message
}

func (t *tally) unavailable(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.LastError = err.Error()
}

func (t *tally) concurrent() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Concurrent++
}

func (t *tally) killed(k verify.Kill) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Kills = append(t.counts.Kills, k)
}

// snapshot returns the counts so far.
func (t *tally) snapshot() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.GivenUp = make(map[string]int, len(t.counts.GivenUp))
	for condition, n := range t.counts.GivenUp {
		c.GivenUp[condition] = n
	}
	return c
}
