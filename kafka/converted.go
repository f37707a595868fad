package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/idemsk/idemsk/idem"
)

// maxConverted is the size of the converted keys and values of a call, in bytes, behind which no further
// record is converted: a few bytes can stand for megabytes.
const maxConverted = 32 << 20

// Converted returns a handler that calls h with converted copies of the records. The error of a conversion is
// that of its record, for which h is not called, nor for those behind it in its lane. If the converted records of a
// call are larger than 32 MiB, the further ones are in a later call, with the same attempt. Keys, fingerprints and
// dead letters are those of the records as they arrived.
func Converted(h Handler, convert func(ctx context.Context, r *Record) error) Handler {
	each := h.each()
	switch many := h.many(); {
	case many != nil:
		return many.converted(convert)
	case each == nil:
		return h // NewProcessor refuses it
	}
	return HandlerFunc(func(ctx context.Context, r Record) ([]byte, error) {
		if err := convert(ctx, &r); err != nil {
			return nil, err
		}
		return each(ctx, r)
	})
}

func (h BulkAttempts) converted(convert func(ctx context.Context, r *Record) error) BulkAttempts {
	return func(ctx context.Context, rs []RecordAttempt) ([]idem.BulkResult, error) {
		results := make([]idem.BulkResult, len(rs))
		var call []RecordAttempt
		var places []int // of the records of the call, in rs
		var failed []*RecordAttempt
		size := 0
		for i := range rs {
			r := rs[i]
			switch behind := slices.ContainsFunc(failed, r.inLaneOf); {
			case size > maxConverted:
				results[i].Err = idem.OutOfTurn(fmt.Errorf(
					"its call has %d bytes of converted records, and the record is in a later one", size))
				continue
			case behind:
				results[i].Err = idem.OutOfTurn(idem.ErrBehind)
				continue
			}
			record := *r.Record
			if results[i].Err = convert(ctx, &record); results[i].Err != nil {
				failed = append(failed, &rs[i])
				continue
			}
			r.Record = &record
			call, places = append(call, r), append(places, i)
			size += len(record.Key) + len(record.Value)
		}
		if len(call) == 0 {
			return results, nil
		}
		got, err := h(ctx, call)
		if err != nil {
			return nil, err
		}
		if len(got) != len(call) {
			return nil, wrongResults(len(got), len(call))
		}
		for i, at := range places {
			results[at] = got[i]
		}
		return results, nil
	}
}
