package msk

import (
	"context"

	"github.com/idemsk/idemsk/kafka"
)

// Record, Handler and JSON are those of package kafka, which every host of a handler uses: for functions that import nothing else
// of it.
type (
	Record  = kafka.Record
	Handler = kafka.Handler
)

// JSON makes a Handler of a function on values in JSON; see kafka.JSON.
func JSON[T, R any](f func(ctx context.Context, value T, r Record) (R, error)) Handler {
	return kafka.JSON(f)
}
