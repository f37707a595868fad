package kafka

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
)

// BulkHandler performs the effects of many records, and returns one error for each, in their order: nil if the effect took
// place. The errors are treated as those of a Handler. A call contains only records for which a Handler would be called, at
// most idem.Config.CommitWindow of them. The records of a partition are in the order of their offsets.
//
// Records after one that fails may have their effects before it is retried. No results are stored. If the process dies during a
// call, all of its records are handled again, because the effects do not commit with the completions.
type BulkHandler func(ctx context.Context, rs []Record) []error

// BulkAttempts is a BulkHandler that also gets the attempt of each record, and returns its result to be stored. A nil Err means
// that the effect took place.
type BulkAttempts func(ctx context.Context, rs []RecordAttempt) []batch.Result

// RecordAttempt is a record in a call of BulkAttempts.
type RecordAttempt struct {
	Record *Record
	// Attempt is the attempt that the claim of the record's key counted. Its Number is 0 if the record is handled without protection.
	Attempt idem.Attempt
	ctx     context.Context
}

// Context returns the context of the record's handler: lines that are logged with it name the record (observe.LogHandler), and it ends
// with the cause idem.ErrLeaseLost if the claim is lost.
func (r *RecordAttempt) Context() context.Context { return r.ctx }

// attempts returns the handler as a BulkAttempts.
func (h BulkHandler) attempts(ctx context.Context, rs []RecordAttempt) []batch.Result {
	records := make([]Record, len(rs))
	for i := range rs {
		records[i] = *rs[i].Record
	}
	errs := h(ctx, records)
	results := make([]batch.Result, len(errs))
	for i, err := range errs {
		results[i].Err = err
	}
	return results
}

// bulk calls the bulk handler for all records that were not rejected.
func (p *Processor) bulk(ctx context.Context, items []*batch.Item) []batch.Result {
	results := make([]batch.Result, len(items))
	var records []RecordAttempt
	var which []int
	for i, it := range items {
		t, _ := it.Substitute.(*task)
		if t.rejected != nil {
			results[i].Err = t.rejected
			continue
		}
		attempt, _ := idem.AttemptFrom(it.Context())
		records, which = append(records, RecordAttempt{Record: t.Record, Attempt: attempt, ctx: it.Context()}), append(which, i)
	}
	if len(records) == 0 {
		return results
	}
	got := p.cfg.BulkAttempts(ctx, records)
	for n, i := range which {
		if results[i].Err = fmt.Errorf("the bulk handler returned %d results for %d records: want one for each", len(got), len(records)); len(got) == len(records) {
			results[i] = got[n]
		}
	}
	return results
}
