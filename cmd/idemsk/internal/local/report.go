package local

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/verify"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// Report is the result of a run.
type Report struct {
	Counts
	Events     int    // number of recorded events; 0 if the run read a topic or a queue
	Queue      string // the queue that the run read; "" if it read none
	Partitions []esm.PartitionState
	Took       time.Duration
	// from the start of the run to the end of the first invocation; 0 if there was none
	First time.Duration
	Seed  uint64
	// the number of keys in the store of the run by status; nil if there is no such store
	Keys     map[store.Status]int
	Taken    int      // number of records whose dead letters were redriven or discarded
	Messages int      // number of messages in the dead-letter queue of the run
	Bodies   []string // those messages
	// those messages as dead letters, each once; none if one of them is not a dead letter
	Letters    []kafka.DeadLetter
	Unexpected int             // number of messages without those of records that ask for their failure
	Verified   *verify.Result  // if Options.Prove is set
	Doubles    *verify.Doubles // if Options.Bookings is set
	Without    *Report         // the same without idemsk, if Options.Compare is set
}

// report returns the report of a run that has ended.
func (r *run) report(ctx context.Context) (*Report, error) {
	out := &Report{Counts: r.tally.snapshot(), Partitions: r.source.Partitions(),
		Took: time.Since(r.tally.begun), Seed: r.o.Seed, Events: len(r.o.ESM.Events),
		Queue: r.o.Queue}
	if !r.tally.first.IsZero() {
		out.First = r.tally.first.Sub(r.tally.begun)
	}
	var err error
	if r.o.Bookings != "" {
		if out.Doubles, err = r.doubles(out.Kills); err != nil {
			return nil, err
		}
	}
	if r.store == nil {
		return out, nil
	}
	if err := r.lookAtStore(ctx, out); err != nil || !r.o.Prove {
		return out, err
	}
	out.Verified, err = r.verify(ctx, out)
	return out, err
}

// lookAtStore adds the keys and the dead letters of the run to its report.
func (r *run) lookAtStore(ctx context.Context, out *Report) (err error) {
	if out.Keys, err = r.store.Counts(ctx); err != nil {
		r.o.Say("The keys can't be counted: " + term.Escape(err.Error()))
	}
	out.Taken = r.store.taken.records() // before they are read, which deletes them
	if out.Bodies, err = r.store.Messages(ctx); err != nil {
		return err
	}
	out.Messages = len(out.Bodies)
	out.Letters, err = testenv.ParseLetters(out.Bodies)
	switch {
	case err != nil && r.o.Prove:
		return err
	case err != nil:
		out.Unexpected = out.Messages // those of another function may have any form
	}
	for i := range out.Letters {
		if !r.o.asksForFailure(&out.Letters[i]) {
			out.Unexpected++
		}
	}
	return nil
}

// asksForFailure reports whether the record of a dead letter is a payment with a simulated failure, such as
// some of those that are generated.
func (o *Options) asksForFailure(l *kafka.DeadLetter) bool {
	var p payments.Payment
	return o.Example && o.variable("IDEMSK_SIMULATE") != "off" && json.Unmarshal(l.Value, &p) == nil &&
		p.Simulate != ""
}

// Lag returns the number of offsets that are not committed, or of recorded events that are not finished.
func (r *Report) Lag() int64 { lag, _ := sums(r.Partitions); return lag }

// Text returns the closing table and the summary.
func (r *Report) Text() string {
	if r.Without != nil {
		return r.beside(r.Without)
	}
	var b strings.Builder
	for _, line := range sourceLines(r.Events, r.Queue, r.Partitions, shownPartitions) {
		b.WriteString(line + "\n")
	}
	b.WriteString("\n")
	t := countsTable(&r.Counts, perSecond(r.Done, r.Took))
	if r.Messages > 0 {
		t.Row("dead letters", term.Plural(r.Messages, "message", "messages")+" in the function's queue")
	}
	if v := r.Verified; v != nil {
		t.Row("ledger", "must be "+verify.Amounts(v.Expected))
		t.Row("", "is "+verify.Amounts(v.Found))
	}
	b.WriteString(t.String())
	if r.LastError != "" {
		b.WriteString("\n" + term.Paragraph("last error: "+r.LastError))
	}
	all, missing, thing, things := "everything is committed", " not committed", "record is", "records are"
	switch {
	case r.Events > 0:
		all, missing, thing, things = "everything is done with", " not done with", "event is", "events are"
	case r.Queue != "":
		all, missing, thing, things = "the queue is empty", " left in the queue", "message is", "messages are"
	}
	left := all
	if lag := r.Lag(); lag > 0 {
		left = term.Plural(int(lag), thing, things) + missing
	}
	fmt.Fprintf(&b, "\n%s after %s\n", left, r.Took.Round(time.Millisecond))
	if text := r.down(time.Now()); text != "" && r.Lag() > 0 {
		b.WriteString(text + "\n")
	}
	for _, line := range lost(&r.Counts) {
		b.WriteString(line + "\n")
	}
	if text := r.failedCalls(); text != "" {
		b.WriteString(text + "\n")
	}
	b.WriteString(r.settled() + "\n")
	if r.Verified != nil {
		b.WriteString("\n" + r.summary(nil))
	} else if len(r.Letters) > 0 {
		b.WriteString("\n" + strings.TrimSuffix(verify.Letters(r.Letters), "\n"))
	}
	if r.Doubles != nil {
		b.WriteString("\n" + r.Doubles.Text())
	}
	return b.String()
}

// failedCalls names the calls of several records that failed as a whole; empty if there are none.
func (r *Report) failedCalls() string {
	o := &r.Outcomes
	if o.FailedCalls == 0 {
		return ""
	}
	return fmt.Sprintf("%s of several records failed as a whole: the effects of their %s may have taken place twice (IDEMSK_CALL_RECORDS=1 prevents it)",
		term.Plural(o.FailedCalls, "call", "calls"), term.Plural(o.FailedCallRecords, "record", "records"))
}

// beside returns the closing table of this run beside that of a run without idemsk, and the summary.
func (r *Report) beside(without *Report) string {
	var t term.Table
	t.Right(1, 2) //nolint:mnd // the figures
	t.Row("", "with idemsk", "without")
	count := func(label string, f func(r *Report) int) {
		t.Row(label, term.Count(f(r)), term.Count(f(without)))
	}
	amount := func(label string, f func(v *verify.Result) map[string]int64) {
		t.Row(label, verify.Amounts(f(r.Verified)), verify.Amounts(f(without.Verified)))
	}
	count("records", func(r *Report) int { return r.Done })
	count("records delivered", func(r *Report) int { return r.Delivered })
	count("  executed (killed processes can't tell)",
		func(r *Report) int { return r.Outcomes.Executed + r.Outcomes.FailedOpen })
	count("  replayed: the stored result, no call", func(r *Report) int { return r.Outcomes.Replayed })
	count("  in-batch duplicates", func(r *Report) int { return r.Outcomes.Duplicates })
	count("  failed before: no second letter", func(r *Report) int { return r.Outcomes.ReplayedFailed })
	count("  dead-lettered", func(r *Report) int { return r.Outcomes.DeadLettered })
	count("  to be retried", func(r *Report) int { return toRetry(&r.Outcomes) })
	if r.Started > 0 {
		count("processes started", func(r *Report) int { return r.Started })
		count("  paused until others had its partitions", func(r *Report) int { return r.Concurrent })
	} else {
		count("invocations", func(r *Report) int { return r.Invocations })
		count("  finished batches delivered again", func(r *Report) int { return r.Redelivered })
		count("  made twice at once", func(r *Report) int { return r.Concurrent })
	}
	count("  processes killed in the middle", func(r *Report) int { return len(r.Kills) })
	count("records a second", func(r *Report) int { return perSecond(r.Done, r.Took) })
	amount("ledger: must be", func(v *verify.Result) map[string]int64 { return v.Expected })
	amount("ledger: is", func(v *verify.Result) map[string]int64 { return v.Found })
	amount("ledger: off by", (*verify.Result).OffBy)
	failed := ""
	if text := r.failedCalls(); text != "" {
		failed = text + "\n"
	}
	return t.String() + "\n" + failed + r.settled() + "\n\n" + r.summary(without.Verified)
}

// settled says how the records ended. Each of those that are done is counted once: it completed its key, is a
// duplicate, is lost, or has a dead letter, which is in the queue or was taken out of it.
func (r *Report) settled() string {
	done := term.Plural(r.Done, "record", "records") + " done"
	if r.Keys == nil && r.Messages == 0 {
		return done // where dead letters are is not known
	}
	completed, failed := r.Keys[store.StatusCompleted], r.Keys[store.StatusFailed]
	dead := max(len(r.Letters), r.Unexpected)
	letters := r.deadLetters(dead)
	if completed+failed == 0 { // it keeps no keys
		return done + ", " + letters
	}
	if dead+r.Taken == 0 && failed > 0 { // the function sends its dead letters elsewhere
		dead, letters = failed, term.Count(failed)+" failed"
	}
	others := max(0, r.Done-completed-dead-r.Taken-r.Ignored)
	text := term.Plural(completed, "record", "records") + " completed"
	if others > 0 {
		text += ", " + term.Count(others) + " with the key of another"
	}
	if r.Ignored > 0 {
		text += ", " + term.Count(r.Ignored) + " lost"
	}
	return text + ", " + letters
}

// deadLetters describes the dead letters of a number of records, and those that are not there any more.
func (r *Report) deadLetters(left int) string {
	switch {
	case r.Taken > 0:
		return fmt.Sprintf("%s left (%s redriven or discarded)", term.Plural(left, "dead letter", "dead letters"),
			term.Count(r.Taken))
	case left == 0:
		return "no dead letters"
	}
	return term.Plural(left, "dead letter", "dead letters")
}

func (r *Report) summary(without *verify.Result) string {
	return r.Verified.Summary(r.Delivered, len(r.Kills), without)
}
