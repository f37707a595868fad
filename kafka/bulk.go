package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/observe"
)

// BulkHandler performs the effects of many records, and returns one error for each, in their order: nil if
// the effect took place. These errors are treated as those of a HandlerFunc. A call contains only records for
// which a HandlerFunc would be called, at most Config.CallRecords of them: of each lane (Config.Order) the next
// ones, in their order. In a consumer process, a call has the records that came while the calls before were in
// progress. No record is called before the earlier ones of its lane are settled, or are in its call.
//
// If a record fails, the records behind it in its lane that fail too use no attempt: they are handled again after
// it. Those for which the handler returns nil are completed, because their effects took place. A handler that stops
// at the first failure of a lane, and returns an error for the rest of it, keeps the order of the effects too.
//
// The second error means that the call failed as a whole, as do a panic and another number of errors: a
// statement for all records was refused, say. That is no evidence against one of the records. The handler is
// called again for each of them alone, lane by lane, in their order, and only the failure of such a call counts as
// an attempt; the rest of its lane waits for it. A record whose effect took place in the failed call has it twice,
// unless its transaction was rolled back. The next calls are smaller. idem.Unavailable releases all records, and
// counts no attempt.
//
// No results are stored. If the process dies during a call, all of its records are handled again, because the
// effects do not commit with the completions. They do if they are in the transaction of the call, which
// pgstore.TxFrom returns for the context of the call. If some of the records then fail, the transaction is rolled
// back, and the handler is called once more for the others that do not have to wait.
type BulkHandler func(ctx context.Context, rs []Record) ([]error, error)

func (BulkHandler) each() HandlerFunc { return nil }

func (h BulkHandler) many() BulkAttempts {
	if h == nil {
		return nil
	}
	return h.attempts
}

// BulkAttempts is a BulkHandler that also gets the attempt of each record, and returns its result to be
// stored. A nil Err of a result means that the effect took place.
type BulkAttempts func(ctx context.Context, rs []RecordAttempt) ([]idem.BulkResult, error)

func (BulkAttempts) each() HandlerFunc { return nil }

func (h BulkAttempts) many() BulkAttempts { return h }

// RecordAttempt is a record in a call of BulkAttempts.
type RecordAttempt struct {
	Record *Record
	// Attempt is the attempt that the claim of the record's key counted. Its Number is 0 if the record is
	// handled without protection.
	Attempt idem.Attempt
	ctx     context.Context
	item    *idem.Item
}

// Context returns the context of the record's handler: lines that are logged with it name the record
// (observe.LogHandler), and it ends with the cause idem.ErrLeaseLost if the claim is lost.
func (r *RecordAttempt) Context() context.Context { return r.ctx }

// inLaneOf reports whether the record is in the lane of another one of its call.
func (r *RecordAttempt) inLaneOf(other *RecordAttempt) bool {
	return r.item != nil && r.item.SameLane(other.item)
}

// attempts returns the handler as a BulkAttempts.
func (h BulkHandler) attempts(ctx context.Context, rs []RecordAttempt) ([]idem.BulkResult, error) {
	records := make([]Record, len(rs))
	for i := range rs {
		records[i] = *rs[i].Record
	}
	errs, err := h(ctx, records)
	if err != nil {
		return nil, err
	}
	results := make([]idem.BulkResult, len(errs))
	for i, err := range errs {
		results[i].Err = err
	}
	return results, nil
}

// bulk calls the bulk handler.
func (p *Processor) bulk(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
	records := make([]RecordAttempt, len(items))
	for i, it := range items {
		attempt, _ := idem.AttemptFrom(it.Context())
		records[i] = RecordAttempt{Record: messageOf(it).Record, Attempt: attempt, ctx: it.Context(), item: it}
	}
	results, err := p.many(ctx, records)
	switch {
	case err != nil:
		p.failedCall(ctx, records, err)
		return nil, err
	case len(results) != len(records):
		return nil, wrongResults(len(results), len(records))
	}
	return results, nil
}

func wrongResults(results, records int) error {
	return idem.OutcomeUnknown(fmt.Errorf("the bulk handler returned %d results for %d records: want one for each",
		results, records))
}

// failedCalls counts the calls of a batch that failed as a whole.
type failedCalls struct{ failed, records atomic.Int64 }

// callsKey is the key of the failedCalls in the context of a batch.
type callsKey struct{}

// failedCall logs and counts a call that failed as a whole. Its error is that of no record's outcome, unless the
// record's own call fails too.
func (p *Processor) failedCall(ctx context.Context, records []RecordAttempt, err error) {
	if len(records) <= 1 || idem.IsUnavailable(err) {
		return
	}
	sources := make([]string, len(records))
	for i := range records {
		sources[i] = records[i].Record.Source()
	}
	then := "each is handled alone now, and those whose effect took place have it twice"
	if p.engine.Config().AtMostOnce {
		then = "the outcome of each is unknown"
	}
	p.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a call of several records failed as a whole: "+then,
		slog.Int("records", len(records)), slog.Any("sources", sources), slog.String("error", err.Error()))
	if of, ok := ctx.Value(callsKey{}).(*failedCalls); ok {
		of.failed.Add(1)
		of.records.Add(int64(len(records)))
	}
	if observer := p.engine.Config().Observer; observer != nil {
		observer.Observe(ctx, idem.Event{Step: observe.FailedCall, Task: &records[0].item.Task, Err: err, Tasks: len(records)})
	}
}
