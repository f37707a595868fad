package simulation_test

import (
	"slices"
	"strconv"
)

// checkRange checks the lease of the partition of a record that begins without a claim of its key: it names
// the record as one that may begin, neither a dead owner nor a settlement without an answer may have left it
// begun, and the token is that of a time under the lease.
func (p *process) checkRange(h *history, e *execution, wrong func(string, ...any)) {
	if !p.variables().is(claim, "partition") || h.entry.status != "" || !p.promises(alone) ||
		e.ctx.Err() != nil || p.ended() {
		return
	}
	r := e.record
	item := p.item(keysTable, "idempotencyKey", p.hashed(function+"%"+r.PartitionID()))
	lease := entryOf(item)
	end, _ := strconv.ParseInt(item["range"].M["end"].N, 10, 64)   // 0 if it is absent
	till, _ := strconv.ParseInt(item["range"].M["till"].N, 10, 64) // 0 if it is absent
	switch {
	case lease.status != started || lease.retry != 0:
		wrong("begins without a claim, and the lease of its partition is %+v", lease)
	case r.Offset >= end:
		wrong("begins at the offset %d, and the lease of its partition ends at %d", r.Offset, end)
	case r.Offset < till:
		wrong("begins without a claim at the offset %d, and a dead owner may have begun the records before %d", r.Offset, till)
	case p.promises(once) && slices.ContainsFunc(h.calls, func(o *execution) bool { return o.record == r && !o.thrown }):
		wrong("begins without a claim under the lease of its partition %+v, and had begun before", lease)
	case e.token < lease.token || e.token > lease.lease:
		wrong("begins with the token %d under the lease of its partition %+v", e.token, lease)
	}
}
