package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/proof"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/kafka"
)

// Report is what came of a run.
type Report struct {
	Counts
	Events     int // recorded ones that took the place of a topic
	Partitions []esm.PartitionState
	Took       time.Duration
	First      time.Duration // from the start of the run to the end of the first invocation; 0 if there was none
	Seed       uint64
	Messages   int                // in the function's own queue of dead letters, in this process
	Letters    []kafka.DeadLetter // those of them that are dead letters, each once
	Proof      *Proof             // if Options.Prove asks for it
}

// Lag is the number of offsets that are not committed, or of recorded events that are not done with.
func (r *Report) Lag() int64 { lag, _ := sums(r.Partitions); return lag }

// Text is the closing table, and what it proves.
func (r *Report) Text() string {
	var b strings.Builder
	for _, line := range sourceLines(r.Events, r.Partitions, shownPartitions) {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	t := countsTable(&r.Counts, perSecond(r.Done, r.Took))
	if r.Messages > 0 {
		t.Row("dead letters", term.Plural(r.Messages, "message", "messages")+" in the function's queue")
	}
	if p := r.Proof; p != nil {
		t.Row("ledger", "must be "+proof.Amounts(p.Expected))
		t.Row("", "is "+proof.Amounts(p.Found))
	}
	b.WriteString(t.String())
	if r.Proof == nil && len(r.Letters) > 0 {
		b.WriteString("\n" + strings.TrimSuffix(letterLines(r.Letters), "\n"))
	}
	if r.LastError != "" {
		b.WriteString("\n" + term.Wrap("last error: "+r.LastError, width) + "\n")
	}
	all, missing, thing, things := "everything is committed", " not committed", "record is", "records are"
	if r.Events > 0 {
		all, missing, thing, things = "everything is done with", " not done with", "event is", "events are"
	}
	left := all
	if lag := r.Lag(); lag > 0 {
		left = term.Plural(int(lag), thing, things) + missing
	}
	fmt.Fprintf(&b, "\n%s after %s\n", left, r.Took.Round(time.Millisecond))
	for _, line := range lost(&r.Counts) {
		b.WriteString(line + "\n")
	}
	if r.Proof != nil {
		b.WriteString("\n" + r.conclusion(nil))
	}
	return b.String()
}

// Beside is the closing table of this run and of another one that ran without idemsk, and what it proves.
func (r *Report) Beside(without *Report) string {
	var t term.Table
	t.Right(1, 2) //nolint:mnd // the figures
	t.Row("", "with idemsk", "without")
	count := func(label string, f func(r *Report) int) {
		t.Row(label, term.Count(f(r)), term.Count(f(without)))
	}
	amount := func(label string, f func(p *Proof) map[string]int64) {
		t.Row(label, proof.Amounts(f(r.Proof)), proof.Amounts(f(without.Proof)))
	}
	count("records", func(r *Report) int { return r.Done })
	count("records delivered", func(r *Report) int { return r.Delivered })
	count("  executed (killed processes can't tell)", func(r *Report) int { return r.Outcomes.Executed + r.Outcomes.Unprotected + r.Outcomes.FailedOpen })
	count("  replayed: the stored result, no call", func(r *Report) int { return r.Outcomes.Replayed })
	count("  in-batch duplicates", func(r *Report) int { return r.Outcomes.Duplicates })
	count("  failed before: no second letter", func(r *Report) int { return r.Outcomes.ReplayedFailed })
	count("  dead-lettered", func(r *Report) int { return r.Outcomes.DeadLettered })
	count("  to be retried", func(r *Report) int { return toRetry(&r.Outcomes) })
	count("invocations", func(r *Report) int { return r.Invocations })
	count("  finished batches that came again", func(r *Report) int { return r.Redelivered })
	count("  made twice at once", func(r *Report) int { return r.Concurrent })
	count("  processes killed in the middle", func(r *Report) int { return len(r.Kills) })
	count("records a second", func(r *Report) int { return perSecond(r.Done, r.Took) })
	amount("ledger: must be", func(p *Proof) map[string]int64 { return p.Expected })
	amount("ledger: is", func(p *Proof) map[string]int64 { return p.Found })
	amount("ledger: off by", func(p *Proof) map[string]int64 { return proof.Off(p.Off) })
	return t.String() + "\n" + r.conclusion(without)
}
