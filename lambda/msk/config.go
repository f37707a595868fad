package msk

import (
	"context"
	"fmt"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// Failures says how records that are not settled are reported to the ESM.
type Failures uint8

// The ways to report.
const (
	// FailBatch makes the invocation fail, so that the ESM delivers the whole batch again. What had completed is a cheap
	// duplicate then.
	FailBatch Failures = iota
	// FailPartial names the records. It needs FunctionResponseTypes: ReportBatchItemFailures at the ESM: without that, the
	// ESM takes any answer as success, and the records are lost.
	FailPartial
)

// Config configures a Consumer. Every field's zero value stands for its default.
type Config struct {
	// Records says how records are handled.
	Records kafka.Config
	// Failures is how the ESM is told (default FailBatch, which is safe with any ESM).
	Failures Failures
	// Report is called at the end of every batch, if not nil; see EMF.
	Report func(ctx context.Context, r kafka.Report)
}

func (c *Config) validate() error {
	if c.Failures > FailPartial {
		return fmt.Errorf("msk: %w: Failures is %d: want FailBatch or FailPartial", idem.ErrInvalidConfig, c.Failures)
	}
	return nil
}
