package lambda

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// overrun ends a process whose handlers have not returned, if the process handles several invocations at
// once. Its runtime lets the other invocations end first, which may take longer than the leases of the
// handlers' keys: then another process would call these handlers while they still run.
type overrun struct {
	invocations int           // that the process handles at once
	grace       time.Duration // from the first overrun to the end of the process
	logger      *slog.Logger
	exit        func(code int)

	mu    sync.Mutex
	timer *time.Timer // nil: there was no overrun
}

func newOverrun(grace time.Duration, logger *slog.Logger) *overrun {
	return &overrun{invocations: lambdacontext.MaxConcurrency(), grace: grace, logger: logger, exit: os.Exit}
}

// happened notes an overrun.
func (o *overrun) happened(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil || o.invocations == 1 {
		return // the runtime ends the process now
	}
	o.timer = time.AfterFunc(o.grace, func() {
		o.logger.LogAttrs(ctx, slog.LevelError,
			"the process ends with its invocations: a handler has not returned, and its lease ends")
		o.exit(1)
	})
}

func (o *overrun) stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}
