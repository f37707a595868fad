package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/rawjson"
)

// Handler performs the effects of records: a HandlerFunc, a BulkHandler or a BulkAttempts.
type Handler interface {
	// each and many return the function; one of them is nil.
	each() HandlerFunc
	many() BulkAttempts
}

// HandlerFunc performs the effect of one record, and returns the result to be stored. It is called concurrently
// for records of different lanes (see Order). Its context ends before the invocation does, and is cancelled
// with the cause idem.ErrLeaseLost if the claim on the key is lost. idem.AttemptFrom returns the attempt with
// the fencing token from it.
//
// An error may be wrapped by idem.Permanent, idem.RetryAfter or idem.Unavailable. After any other error the
// record is retried.
type HandlerFunc func(ctx context.Context, r Record) ([]byte, error)

func (f HandlerFunc) each() HandlerFunc { return f }

func (HandlerFunc) many() BulkAttempts { return nil }

// errTombstone is JSON's error for a record without a value.
var errTombstone = errors.New("the record is a tombstone (its value is null): handle tombstones in a HandlerFunc that checks Record.Tombstone")

// JSON returns a handler that calls f with the value decoded from JSON. A value that is not JSON of type T,
// or a tombstone, is a permanent failure, whose error quotes nothing of the value, nor an error of an
// UnmarshalJSON method. The result of f is stored as JSON. If the result can't be encoded, the record still
// completes, because its effect took place; a replay then gets store.ErrResultNotStored.
func JSON[T, R any](f func(ctx context.Context, value T, r Record) (R, error)) HandlerFunc {
	return func(ctx context.Context, r Record) ([]byte, error) {
		if r.Value == nil {
			return nil, idem.Permanent(errTombstone)
		}
		var value T
		if err := rawjson.Unmarshal(r.Value, &value); err != nil {
			return nil, idem.Permanent(fmt.Errorf("the value (%d bytes) is not JSON of %T: %w", len(r.Value),
				value, err))
		}
		result, err := f(ctx, value, r)
		if err != nil {
			return nil, err
		}
		return EncodeResult(result)
	}
}

// EncodeResult returns a handler's result as JSON, to be stored. After its error the record still completes,
// because the effect took place: a replay then gets store.ErrResultNotStored.
func EncodeResult(result any) (out []byte, err error) {
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
