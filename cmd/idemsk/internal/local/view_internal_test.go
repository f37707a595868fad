package local

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// The rate is that of the last ten seconds. It is 0 ten seconds after the last record, and idle time does not
// lower a later rate.
func TestRate(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	want := map[int]int{0: 0, 1: 100, 5: 100, 20: 100, 25: 50, 30: 0, 3600: 0, 3601: 100, 3610: 100, 3611: 0}
	var w window
	done := 0
	for second := range 3612 { // looked at once a second
		switch {
		case second > 0 && second <= 20:
			done += 100
		case second == 3601:
			done += 1000
		}
		got := w.rate(begun.Add(time.Duration(second)*time.Second), done)
		if rate, asked := want[second]; asked && got != rate {
			t.Errorf("at %d s: %d records a second, want %d", second, got, rate)
		}
		if len(w.samples) > 12 {
			t.Fatalf("%d samples are kept", len(w.samples))
		}
	}
}

// While records wait after a kill, the view shows the lease that they wait for.
func TestWaitingForALease(t *testing.T) {
	t.Parallel()
	now := time.Now()
	killed := func(ago time.Duration) *Counts {
		return &Counts{Kills: []verify.Kill{{At: now.Add(-time.Hour)}, {At: now.Add(-ago)}}}
	}
	const lease = 5 * time.Second
	if got, want := waiting(killed(2*time.Second), 1, lease,
		now), "a process was killed 2s ago: the keys it held are free when its lease of 5s is over"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	for what, got := range map[string]string{
		"nothing was killed":     waiting(new(Counts), 1, lease, now),
		"nothing is in flight":   waiting(killed(0), 0, lease, now),
		"the lease is over":      waiting(killed(6*time.Second), 1, lease, now),
		"the lease is not known": waiting(killed(time.Second), 1, 0, now),
	} {
		if got != "" {
			t.Errorf("%s: %q", what, got)
		}
	}
	for _, test := range []struct {
		o    Options
		want time.Duration
	}{
		{Options{Function: "f", Store: StoreFake}, 5 * time.Second},
		{Options{Function: "f", Store: StoreFake, Env: []string{"IDEMSK_LEASE=1m"}}, time.Minute},
		{Options{Function: "f", Store: StoreNone}, 0}, {Options{Invoke: "http://x", Store: StoreFake}, 0},
		{Options{Function: "f", Store: StoreFake, Unprotected: true}, 0},
	} {
		if got := test.o.lease(); got != test.want {
			t.Errorf("%+v: the lease is %v, want %v", test.o, got, test.want)
		}
	}
}

// An outage of what the handler needs is told from the first metrics that have it until a handler has
// succeeded.
func TestViewOfAnOutage(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var c Counts
	for i, step := range []struct {
		down, executed int
		want           string
	}{
		{0, 5, ""}, {7, 3, "the handler has failed for all records for 0s"},
		{0, 0, "the handler has failed for all records for 10s"},
		{1, 0, "the handler has failed for all records for 20s"}, {0, 1, ""},
		{1, 0, "the handler has failed for all records for 0s"},
	} {
		at := now.Add(time.Duration(i) * 10 * time.Second)
		c.found(step.down, step.executed, at)
		if got := c.down(at); got != step.want {
			t.Errorf("step %d: %q; want %q", i, got, step.want)
		}
	}
	v := View{source: partitionsOf{all: []esm.PartitionState{{End: 9}}}, tally: &tally{begun: now}}
	v.tally.handled(&metrics.Outcomes{HandlerDown: 2})
	v.tally.handled(&metrics.Outcomes{HandlerDown: 3, Executed: 4}) // of a process that had succeeded before
	const text = "the handler has failed for all records for"
	shown := map[string]string{
		"line": v.Line(), "view": strings.Join(v.Lines(term.Room{Columns: 80, Rows: 40}), "\n"),
		"report": (&Report{Counts: v.tally.snapshot(), Partitions: v.source.Partitions()}).Text(),
	}
	for where, got := range shown {
		if !strings.Contains(got, text) {
			t.Errorf("%s: %s", where, got)
		}
	}
	c = v.tally.snapshot()
	if n := counts(&c); n[len(n)-1].Name != "seconds without a success of the handler" ||
		n[len(n)-1].Value < 1 {
		t.Errorf("page: %+v", n)
	}
	if got := (&Report{Counts: c}).Text(); strings.Contains(got, text) {
		t.Errorf("nothing is left: %s", got)
	}
}

// partitionsOf is a source of a fixed state.
type partitionsOf struct {
	source
	all []esm.PartitionState
}

func (p partitionsOf) Partitions() []esm.PartitionState { return p.all }

// A line of progress fits 100 columns and has the dead letters; an error follows it once, on lines of its own.
func TestLineOfProgress(t *testing.T) {
	t.Parallel()
	tally := &tally{begun: time.Now()}
	tally.counts = Counts{Done: 1_234_567, Invocations: 98_765, Failed: 1_234, Injected: 123, Reports: 1,
		LastError: "payments-0@7: " + strings.Repeat("a long error, ", 40) + "the cause", Outcomes: metrics.Outcomes{Executed: 1_234_567,
			Replayed: 100_000, Duplicates: 100_000, Retried: 10_000, Stolen: 1000, DeadLettered: 100}}
	v := &View{tally: tally, source: noPartitions{}}
	lines := strings.Split(v.Line(), "\n")
	if len(lines) != 1+maxErrorLines || !strings.Contains(lines[0], ", 100 dead-lettered, ") ||
		!strings.HasPrefix(lines[1], "  last error: payments-0@7") || !strings.HasSuffix(lines[maxErrorLines], "the cause") {
		t.Errorf("%q", lines)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > lineWidth {
			t.Errorf("%d columns: %q", len(line), line)
		}
	}
	if again := v.Line(); again != lines[0] {
		t.Errorf("the next line is %q; want %q", again, lines[0])
	}
}

type noPartitions struct{ source }

func (noPartitions) Partitions() []esm.PartitionState { return nil }
