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

// bulk calls the bulk handler for all records that were not rejected.
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
