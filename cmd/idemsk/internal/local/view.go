package local

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/metrics"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// View is the progress of a run. Its texts are escaped.
type View struct {
	title  string
	source source
	tally  *tally
	events int           // number of recorded events; 0 if the run reads a topic or a queue
	queue  string        // the queue that the run reads; "" if it reads none
	lease  time.Duration // the function's lease; 0 if it is unknown
	recent window
	told   string // the last error of a line
}

// shownPartitions is the maximum number of partitions in a table: those with the largest lag.
const shownPartitions = 12

// Lines returns the view, cut to a room. It omits the partitions with the smallest lag.
func (v *View) Lines(room term.Room) []string {
	counts := v.tally.snapshot()
	state := ""
	if mapping, ok := v.source.(*esm.ESM); ok && !mapping.Enabled() {
		state = "DISABLED, "
	}
	now := time.Now()
	lines := []string{state + now.Sub(v.tally.begun).Round(time.Second).String() + ", " + v.title, ""}
	below := append([]string{""}, tableLines(countsTable(&counts, v.recent.rate(now, counts.Done)))...)
	_, flight := sums(v.source.Partitions())
	if text := waiting(&counts, flight, v.lease, now); text != "" {
		below = append(below, "", text)
	}
	if text := counts.down(now); text != "" {
		below = append(below, "", text)
	}
	below = append(below, errorLines(counts.LastError, room.Columns)...)
	const heading, others = 1, 1 // lines before and after the partitions
	fitting := room.Rows - len(lines) - heading - others - len(below)
	lines = append(lines, sourceLines(v.events, v.queue, v.source.Partitions(),
		min(max(fitting, 0), shownPartitions))...)
	return append(lines, below...)
}

// waiting describes the lease that records in flight wait for after a kill; "" if there is none. The lease is
// 0 if it is unknown.
func waiting(c *Counts, flight int, lease time.Duration, now time.Time) string {
	if len(c.Kills) == 0 || flight == 0 {
		return ""
	}
	ago := now.Sub(c.Kills[len(c.Kills)-1].At)
	if ago > lease {
		return ""
	}
	return fmt.Sprintf("a process was killed %s ago: the keys it held are free when its lease of %s is over",
		ago.Round(time.Second), lease)
}

// window measures the recent rate. A rate since the start would fall while there are no records.
type window struct{ samples []sample }

type sample struct {
	at   time.Time
	done int
}

// windowTime is the length of a window.
const windowTime = 10 * time.Second

// rate adds a sample, and returns the records a second within the window; 0 for the first sample.
func (w *window) rate(now time.Time, done int) int {
	w.samples = append(w.samples, sample{now, done})
	for len(w.samples) > 2 && now.Sub(w.samples[1].at) >= windowTime {
		// the remaining samples span the window
		w.samples = w.samples[1:]
	}
	return perSecond(done-w.samples[0].done, now.Sub(w.samples[0].at))
}

// perSecond returns the rate of n in d.
func perSecond(n int, d time.Duration) int {
	return int(float64(n) / max(d.Seconds(), time.Millisecond.Seconds()))
}

// maxErrorLines is the maximum number of lines of an error in the view. The log has the whole error.
const maxErrorLines = 4

// errorLines returns the lines of an error below a table: its beginning and its end.
func errorLines(text string, columns int) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(term.Wrap("last error: "+strings.ReplaceAll(text, "\n", "; "), columns), "\n")
	if n := len(lines); n > maxErrorLines { // the first say where and what, the last ones why
		lines = append(lines[:maxErrorLines/2], lines[n-maxErrorLines/2:]...)
		lines[maxErrorLines/2-1] += " …"
	}
	for i, line := range lines {
		lines[i] = term.Cut(line, columns) // a word may be longer
	}
	return append([]string{""}, lines...)
}

// lineWidth is the width of a line of progress, in runes. More than that, a line has only losses and what the run
// waits for.
const lineWidth = 100

// Line returns the view in one line, and in a second one the last error if the line before had another.
func (v *View) Line() string {
	c := v.tally.snapshot()
	lag, flight := sums(v.source.Partitions())
	line := fmt.Sprintf("%s done, lag %s", term.Plural(c.Done, "record", "records"), term.Count(lag))
	if n := c.Outcomes.DeadLettered; n > 0 {
		line += ", " + term.Count(n) + " dead-lettered"
		c.Outcomes.DeadLettered = 0 // once in the line
	}
	if c.Started > 0 {
		line += ", " + term.Plural(c.Started, "process", "processes") + " started"
	} else {
		line += fmt.Sprintf(", %s (%s)", term.Plural(c.Invocations, "invocation", "invocations"), failed(&c, "by kills"))
	}
	now := time.Now()
	for _, text := range append(lost(&c), waiting(&c, flight, v.lease, now), c.down(now)) {
		if text != "" {
			line += ", " + text
		}
	}
	line += whatFits(&c, flight, lineWidth-utf8.RuneCountInString(line))
	if c.LastError != "" && c.LastError != v.told {
		v.told = c.LastError
		line += strings.Join(errorLines(c.LastError, lineWidth-len("  ")), "\n  ")
	}
	return line
}

// whatFits describes the records in flight and the outcomes, as far as they fit the columns that are left.
func whatFits(c *Counts, flight, columns int) (text string) {
	var parts []string
	if c.Started == 0 {
		parts = append(parts, term.Count(flight)+" in flight")
	}
	if c.Reports > 0 {
		parts = append(parts, outcomes(c)...)
	}
	for _, part := range parts {
		if longer := text + ", " + part; utf8.RuneCountInString(longer) <= columns {
			text = longer
		}
	}
	return text
}

// lost describes the lost records, with the reasons.
func lost(c *Counts) (lines []string) {
	if c.Lost > 0 {
		lines = append(lines, term.Plural(c.Lost, "record", "records")+
			" lost: given up, no on-failure destination")
	}
	if c.Ignored > 0 {
		lines = append(lines, term.Plural(c.Ignored, "record", "records")+
			" lost: named as failed by the function, without ReportBatchItemFailures")
	}
	return lines
}

func sums(partitions []esm.PartitionState) (lag int64, flight int) {
	for i := range partitions {
		lag += partitions[i].Lag()
		flight += partitions[i].InFlight
	}
	return lag, flight
}

// sourceLines returns the progress of the recorded events, of the queue or, if there is neither, of the
// partitions.
func sourceLines(events int, queue string, partitions []esm.PartitionState, most int) []string {
	if queue != "" {
		return queueLines(queue, partitions)
	}
	if events == 0 {
		return partitionLines(partitions, most)
	}
	lag, _ := sums(partitions)
	return []string{fmt.Sprintf("%s of %s done with", term.Count(int64(events)-lag),
		term.Plural(events, "event", "events"))}
}

// partitionLines returns a table of at most most partitions.
func partitionLines(partitions []esm.PartitionState, most int) []string {
	var t term.Table
	t.Right(0, 1, 2, 3, 4, 5) //nolint:mnd // all columns
	t.Row("partition", "poller", "committed", "end", "lag", "in flight")
	left := 0
	if len(partitions) > most {
		left = len(partitions) - most
		slices.SortStableFunc(partitions,
			func(a, b esm.PartitionState) int { return cmp.Compare(b.Lag(), a.Lag()) })
		partitions = partitions[:most]
	}
	for i := range partitions {
		p := &partitions[i]
		poller, flight := strconv.Itoa(p.Poller), term.Count(p.InFlight)
		if p.Poller == esm.NoPoller {
			poller, flight = "-", "-"
		}
		t.Row(strconv.Itoa(int(p.Partition)), poller, term.Count(p.Committed), term.Count(p.End),
			term.Count(p.Lag()), flight)
	}
	lines := tableLines(&t)
	if left > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more that lag less", left))
	}
	return lines
}

func tableLines(t *term.Table) []string {
	return strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
}

// countsTable returns a table of the counts. rate is in records a second.
func countsTable(c *Counts, rate int) *term.Table {
	t := new(term.Table)
	before := ""
	row := func(show bool, name, format string, args ...any) {
		if !show {
			return
		}
		if name == before {
			name = ""
		} else {
			before = name
		}
		t.Row(name, fmt.Sprintf(format, args...))
	}
	row(true, "records", "%s done (%s/s), delivered %s", term.Count(c.Done), term.Count(rate),
		term.Plural(c.Delivered, "time", "times"))
	row(c.Filtered > 0, "filtered", "%s dropped by the filter criteria",
		term.Plural(c.Filtered, "record", "records"))
	row(c.Started > 0, "processes", "%s started, %s by themselves", term.Count(c.Started),
		term.Plural(c.Failed, "ended", "ended"))
	row(c.Started == 0, "invocations", "%s: %s ok, %s", term.Count(c.Invocations),
		term.Count(c.Invocations-c.Failed), failed(c, killedOnPurpose))
	row(c.Unreadable > 0, "invocations", "%s no partial batch response",
		term.Plural(c.Unreadable, "answer was", "answers were"))
	row(c.Named > 0, "invocations", "%s named as failed, and delivered again",
		term.Plural(c.Named, "record", "records"))
	row(c.Bisected > 0, "invocations", "%s split in two", term.Plural(c.Bisected, "batch", "batches"))
	row(len(c.Kills) > 0, "faults", "%s killed", term.Plural(len(c.Kills), "process", "processes"))
	row(c.Redelivered > 0, "faults", "%s delivered again",
		term.Plural(c.Redelivered, "finished batch", "finished batches"))
	row(c.Concurrent > 0 && c.Started == 0, "faults", "%s made twice at once",
		term.Plural(c.Concurrent, "invocation", "invocations"))
	row(c.Concurrent > 0 && c.Started > 0, "faults", "%s paused, until others had its partitions",
		term.Plural(c.Concurrent, "process", "processes"))
	for _, condition := range slices.Sorted(maps.Keys(c.GivenUp)) {
		row(true, "given up", "%s: %s", term.Plural(c.GivenUp[condition], "record", "records"), condition)
	}
	row(c.Sent > 0, "given up", "%s at the on-failure destination", term.Plural(c.Sent, "record", "records"))
	for _, line := range lost(c) {
		row(true, "lost", "%s", line)
	}
	for line := range slices.Chunk(outcomes(c), outcomesInLine) {
		row(c.Reports > 0, "outcomes", "%s", strings.Join(line, ", "))
	}
	return t
}

// killedOnPurpose says what happened to the failed invocations that were killed, in a table.
const killedOnPurpose = "of them killed on purpose"

// failed describes the failed invocations. killed says what happened to those that were killed on purpose.
func failed(c *Counts, killed string) string {
	text := term.Count(c.Failed) + " failed"
	if c.Injected > 0 {
		text += ", " + term.Count(c.Injected) + " " + killed
	}
	return text
}

// outcomesInLine is the number of outcomes that fit a line of 80 columns.
const outcomesInLine = 2

// outcomes describes the outcomes in the function's metrics.
func outcomes(c *Counts) []string {
	o := &c.Outcomes
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, term.Count(n)+" "+what)
		}
	}
	add(o.DeadLettered, "dead-lettered")
	add(o.Executed, "executed")
	add(o.Replayed, "replayed")
	if o.Duplicates > 0 {
		parts = append(parts, term.Plural(o.Duplicates, "in-batch duplicate", "in-batch duplicates"))
	}
	add(o.FailedOpen, "executed without protection")
	add(toRetry(o), "to be retried")
	add(o.InFlight, "in flight elsewhere")
	add(o.Stolen, "taken over after another owner's lease")
	add(o.ReplayedFailed, "failed before")
	return parts
}

// toRetry returns the number of records that must be delivered again.
func toRetry(o *metrics.Outcomes) int {
	return o.Retried + o.NotStarted + o.StoreDown + o.CompletionFailed
}
