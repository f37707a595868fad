package cli

import (
	"context"
	"errors"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// repeat runs a verb once if every is 0, otherwise until ctx ends, with this time between the beginnings of two runs. It then prints
// errors, because the next run may succeed.
func repeat(ctx context.Context, s Streams, verb string, every time.Duration, once func() error) error {
	if every == 0 {
		return once()
	}
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if err := once(); err != nil && ctx.Err() == nil && !errors.Is(err, errReported) {
			s.sayf("idemsk %s: %s\n", verb, term.EscapeLines(err.Error()))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}
