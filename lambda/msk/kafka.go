package msk

import (
	"context"

	"github.com/idemsk/idemsk/kafka"
)

// Record is kafka.Record, for functions that do not import that package.
type Record = kafka.Record

// Handler is kafka.Handler.
type Handler = kafka.Handler

// HandlerFunc is kafka.HandlerFunc.
type HandlerFunc = kafka.HandlerFunc

// JSON returns a handler that decodes JSON values; see kafka.JSON.
func JSON[T, R any](f func(ctx context.Context, value T, r Record) (R, error)) HandlerFunc {
	return kafka.JSON(f)
}
