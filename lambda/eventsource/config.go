package eventsource

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Failures decides how unsettled records are reported to the event source mapping (ESM).
type Failures uint8

// The ways to report unsettled records.
const (
	// FailBatch makes the invocation fail, so that the ESM delivers the whole batch again. Records that have
	// completed are duplicates then, and are not executed again.
	FailBatch Failures = iota
	// FailPartial returns a partial batch response. It requires FunctionResponseTypes:
	// ReportBatchItemFailures at the ESM. Without that, the ESM treats any answer as a success, and the
	// unsettled records are lost.
	FailPartial
)

// Config configures a Consumer. Every field's zero value stands for its default.
type Config struct {
	// Records configures the processing of records.
	Records kafka.Config
	// Failures decides how unsettled records are reported (default FailBatch, which is safe with any ESM).
	Failures Failures
	// Report is called after every batch, if not nil; see EMF.
	Report func(ctx context.Context, r kafka.Report)
}

func (c *Config) validate() error {
	if c.Failures > FailPartial {
		return fmt.Errorf("eventsource: %w: Failures is %d: want FailBatch or FailPartial", idem.ErrInvalidConfig,
			c.Failures)
	}
	return nil
}
