package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/idemsk/idemsk/idem"
)

// Handler has the effect of one record, and returns the result to be stored. It is called concurrently, for records of
// different units (see Order). Its context ends before the invocation does, and is cancelled with the cause
// idem.ErrLeaseLost when the claim on the key is lost; idem.AttemptFrom finds the fencing token in it.
//
// An error may be marked by idem.Permanent, idem.RetryAfter or idem.Unavailable; any other may pass, and the record is
// tried again.
type Handler func(ctx context.Context, r Record) ([]byte, error)

// errTombstone is what JSON says of a record without a value.
var errTombstone = errors.New("the record is a tombstone (its value is null): use a Handler that looks at Record.Tombstone to give it a meaning")

// JSON makes a Handler of a function on values in JSON. A value that is not JSON of type T, or a tombstone, is a permanent
// failure. The function's result is stored as JSON; one that can't be encoded does not fail the record, since its effect
// has taken place: a replay then gets store.ErrResultNotStored.
func JSON[T, R any](f func(ctx context.Context, value T, r Record) (R, error)) Handler {
	return func(ctx context.Context, r Record) ([]byte, error) {
		if r.Value == nil {
			return nil, idem.Permanent(errTombstone)
		}
		var value T
		if err := json.Unmarshal(r.Value, &value); err != nil {
			return nil, idem.Permanent(fmt.Errorf("the value (%d bytes) is not JSON of %T: %w", len(r.Value), value, err))
		}
		result, err := f(ctx, value, r)
		if err != nil {
			return nil, err
		}
		return encodeResult(result)
	}
}

// encodeResult encodes what a handler returned after its effect: whatever goes wrong here, the effect must not be repeated.
func encodeResult(result any) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &idem.PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			out, err = nil, idem.ResultUnavailable(fmt.Errorf("the result can't be encoded: %w", err))
		}
	}()
	return json.Marshal(result)
}
