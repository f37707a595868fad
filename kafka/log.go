package kafka

import (
	"context"
	"errors"
	"log/slog"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// Log writes a line for each record with any other outcome than a plain execution, and one for the batch. The
// batch's line always has the main counts; other counts appear if they are not zero. err is the reason for
// records that are to be delivered again, or nil.
func (b *Batch) Log(ctx context.Context, r *Report, err error) {
	log := b.processor.cfg.Logger
	for m := range b.Messages() {
		logRecord(ctx, log, m)
	}
	logBatch(ctx, log, r, err)
}

func logBatch(ctx context.Context, log *slog.Logger, r *Report, err error) {
	attrs := []slog.Attr{
		slog.Int("records", r.Records), slog.Int("partitions", r.Partitions),
		slog.Float64("tookMs", float64(r.Took.Microseconds())/1000),
		slog.Int("executed", r.Executed), slog.Int("replayed", r.Replayed),
		slog.Int("duplicates", r.Duplicates),
		slog.Int("deadLettered", r.DeadLettered), slog.Int("reported", r.Reported),
	}
	for _, c := range []struct {
		name string
		n    int
	}{
		{"replayedFailed", r.ReplayedFailed}, {"retried", r.Retried}, {"inFlight", r.InFlight},
		{"notStarted", r.NotStarted},
		{"completionFailed", r.CompletionFailed}, {"storeDown", r.StoreDown}, {"overruns", r.Overruns},
		{"stolen", r.Stolen}, {"fenced", r.Fenced},
		{"failedOpen", r.FailedOpen},
		{"handlerDown", r.HandlerDown},
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

// logRecord writes a line for a record unless it was a plain execution. The attribute "alarm" marks records
// that need an operator.
func logRecord(ctx context.Context, log *slog.Logger, m *Message) {
	if m.simple() {
		return
	}
	level, alarm := severity(m)
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 12), slog.String("source", m.Task.Source))
	switch m.State {
	case idem.ItemOverrun:
		attrs = append(attrs, slog.String("outcome", "Overrun"),
			slog.String("error", idem.ErrOverrun.Error()))
	case idem.ItemBehindOverrun:
		attrs = append(attrs, slog.String("outcome", "Behind"))
	case idem.ItemEnded:
		attrs = appendOutcome(attrs, m)
	}
	if alarm {
		attrs = append(attrs, slog.Bool("alarm", true))
	}
	log.LogAttrs(ctx, level, "record", attrs...)
}

// simple reports whether a record's outcome is a plain execution: it was executed without an error, with
// protection.
func (m *Message) simple() bool {
	return m.State == idem.ItemEnded && !m.Duplicate && m.Outcome.Err == nil &&
		m.Outcome.Kind == idem.Executed
}

func appendOutcome(attrs []slog.Attr, m *Message) []slog.Attr {
	out := &m.Outcome
	name := out.Kind.String()
	if out.Kind == idem.Executed && m.Duplicate { // another record of the batch was executed
		name = "Duplicate"
	}
	attrs = append(attrs, slog.String("outcome", name))
	if out.Key != "" {
		attrs = append(attrs, slog.String("key", out.Key))
	}
	if out.Token != 0 {
		attrs = append(attrs, slog.Int64("token", out.Token))
	}
	if out.Attempt != 0 {
		attrs = append(attrs, slog.Int("attempt", out.Attempt))
	}
	if m.Duplicate {
		attrs = append(attrs, slog.Bool("duplicate", true))
	}
	if out.Fenced {
		attrs = append(attrs, slog.Bool("fenced", true))
	}
	if out.Err != nil {
		attrs = append(attrs, slog.String("error", out.Err.Error()))
	}
	var p *idem.PanicError
	if errors.As(out.Err, &p) && !m.Duplicate {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	return attrs
}

// severity returns the log level of a record, and whether it needs an operator.
func severity(m *Message) (level slog.Level, alarm bool) {
	out := &m.Outcome
	switch {
	case m.State == idem.ItemOverrun:
		return slog.LevelError, true
	case m.State == idem.ItemBehindOverrun:
		return slog.LevelDebug, false
	case out.Kind == idem.CompletionFailed, isBlocked(out):
		return slog.LevelError, !m.Duplicate
	case errors.Is(out.Err, idem.ErrHandlerDown):
		if out.Kind == idem.NotStarted { // those that failed say it
			return slog.LevelDebug, false
		}
		return slog.LevelError, true
	case out.Kind == idem.DeadLettered, out.Kind == idem.StoreDown, out.Kind == idem.FailedOpen:
		return slog.LevelError, false
	case out.Kind == idem.Behind:
		return slog.LevelDebug, false
	case out.Kind == idem.Executed && out.Err != nil:
		return slog.LevelWarn, false
	case out.Kind.Settled() && !out.Fenced:
		return slog.LevelInfo, false
	}
	return slog.LevelWarn, false
}

// isBlocked reports whether a record blocks its partition until the operator fixes the cause. Redeliveries do
// not help.
func isBlocked(out *idem.Outcome) bool {
	err := out.Err
	return !out.Kind.Settled() &&
		(errors.Is(err, idem.ErrNoDeadLetters) || errors.Is(err, idem.ErrDeadLetterNotSent) ||
			errors.Is(err, store.ErrForeignEntry) ||
			errors.Is(err, store.ErrMisconfigured))
}
