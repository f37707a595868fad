package msk

import (
	"context"

	"github.com/idemsk/idemsk/kafka"
)

// Record is kafka.Record, for functions that import nothing else of that package.
type Record = kafka.Record

// Handler is kafka.Handler, which every host of a handler calls.
type Handler = kafka.Handler

// JSON makes a Handler of a function on values in JSON; see kafka.JSON.
func JSON[T, R any](f func(ctx context.Context, value T, r Record) (R, error)) Handler {
	return kafka.JSON(f)
}
