package msk

import (
	"context"
	"errors"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
)

// logBatch writes the line of a batch: what every batch has, and of the rest what happened.
func logBatch(ctx context.Context, log *slog.Logger, r *Report, err *BatchError) {
	attrs := []slog.Attr{
		slog.Int("records", r.Records), slog.Int("partitions", r.Partitions), slog.Float64("tookMs", millis(r.Took)),
		slog.Int("executed", r.Executed), slog.Int("replayed", r.Replayed), slog.Int("coalesced", r.Coalesced),
		slog.Int("deadLettered", r.DeadLettered), slog.Int("reported", r.Reported),
	}
	for _, c := range []struct {
		name string
		n    int
	}{
		{"replayedFailed", r.ReplayedFailed}, {"retried", r.Retried}, {"inFlight", r.InFlight}, {"notStarted", r.NotStarted},
		{"completionFailed", r.CompletionFailed}, {"storeDown", r.StoreDown}, {"stray", r.Stray}, {"stolen", r.Stolen}, {"fenced", r.Fenced},
		{"failedOpen", r.FailedOpen}, {"unprotected", r.Unprotected},
	} {
		if c.n > 0 {
			attrs = append(attrs, slog.Int(c.name, c.n))
		}
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	log.LogAttrs(ctx, level, "batch", attrs...)
}

// logRecord writes a line for a record that was not simply executed. "alarm" marks what somebody should be woken for.
func logRecord(ctx context.Context, log *slog.Logger, j *job) {
	if j.simple() {
		return
	}
	level, alarm := severity(j)
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 9), slog.String("source", j.Task.Source))
	switch j.State {
	case batch.Overrun:
		attrs = append(attrs, slog.String("outcome", "Stray"), slog.String("error", batch.ErrOverrun.Error()))
	case batch.BehindOverrun:
		attrs = append(attrs, slog.String("outcome", "Behind"))
	case batch.Ended:
		attrs = appendOutcome(attrs, j)
	}
	if alarm {
		attrs = append(attrs, slog.Bool("alarm", true))
	}
	log.LogAttrs(ctx, level, "record", attrs...)
}

// simple reports whether there is nothing to tell of a job: it was executed, with or, as the whole batch was, without
// protection.
func (j *job) simple() bool {
	return j.State == batch.Ended && !j.Duplicate && j.Outcome.Err == nil &&
		(j.Outcome.Kind == idem.Executed || j.Outcome.Kind == idem.Unprotected && j.consumer.cfg.Unprotected)
}

func appendOutcome(attrs []slog.Attr, j *job) []slog.Attr {
	out := &j.Outcome
	name := out.Kind.String()
	if out.Kind == idem.KindUnknown {
		name = "Behind"
	}
	attrs = append(attrs, slog.String("outcome", name))
	if out.Key != "" {
		attrs = append(attrs, slog.String("key", out.Key))
	}
	if out.Token != 0 {
		attrs = append(attrs, slog.Int64("version", out.Token))
	}
	if out.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", out.Attempt))
	}
	if j.Duplicate {
		attrs = append(attrs, slog.Bool("coalesced", true))
	}
	if out.Err != nil {
		attrs = append(attrs, slog.String("error", out.Err.Error()))
	}
	var p *idem.PanicError
	if errors.As(out.Err, &p) && !j.Duplicate {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	return attrs
}

// severity says how loudly to tell of a job.
func severity(j *job) (level slog.Level, alarm bool) {
	out := &j.Outcome
	switch {
	case j.State == batch.Overrun:
		return slog.LevelError, true
	case j.State == batch.BehindOverrun:
		return slog.LevelDebug, false
	case out.Kind == idem.CompletionFailed, j.blocked():
		return slog.LevelError, !j.Duplicate
	case out.Kind == idem.DeadLettered, out.Kind == idem.StoreDown, out.Kind == idem.FailedOpen:
		return slog.LevelError, false
	case out.Kind == idem.KindUnknown:
		return slog.LevelDebug, false
	case out.Kind == idem.Executed && out.Err != nil:
		return slog.LevelWarn, false
	case out.Kind.Settled() && !out.Fenced:
		return slog.LevelInfo, false
	}
	return slog.LevelWarn, false
}

// blocked reports whether a record holds up its partition until somebody mends the cause, which no further delivery will.
func (j *job) blocked() bool {
	err := j.Outcome.Err
	return !j.Outcome.Kind.Settled() &&
		(errors.Is(err, idem.ErrNoDeadLetters) || errors.Is(err, idem.ErrDeadLetterNotSent) || errors.Is(err, idem.ErrForeignRecord))
}
