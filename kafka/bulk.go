package kafka

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/batch"
)

// BulkHandler has the effects of many records, and returns an error for each, in their order: nil where the effect took place. The
// errors are treated as those of a Handler. It gets each record for which a Handler would be called, those of a partition in the
// order of their offsets, and at most idem.Config.CommitWindow of them in a call.
//
// Records behind one that fails may have had their effects before it is tried again. No results are stored, and a process that dies
// in a call leaves all of its records to be handled again: effects do not commit with their completions.
type BulkHandler func(ctx context.Context, rs []Record) []error

// bulk calls the bulk handler, but for records that were rejected.
func (p *Processor) bulk(ctx context.Context, items []*batch.Item) []batch.Result {
	results := make([]batch.Result, len(items))
	var records []Record
	var which []int
	for i, it := range items {
		t, _ := it.Substitute.(*task)
		if t.rejected != nil {
			results[i].Err = idem.Permanent(t.rejected)
			continue
		}
		records, which = append(records, *t.Record), append(which, i)
	}
	if len(records) == 0 {
		return results
	}
	errs := p.cfg.Bulk(ctx, records)
	for n, i := range which {
		if results[i].Err = fmt.Errorf("the bulk handler returned %d errors for %d records: want one for each", len(errs), len(records)); len(errs) == len(records) {
			results[i].Err = errs[n]
		}
	}
	return results
}
