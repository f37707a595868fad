package command

import (
	"context"
	"errors"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// Repeat runs a verb once if every is 0, otherwise until ctx ends, with this time between the beginnings of
// two runs. It then prints errors, because the next run may succeed.
func Repeat(ctx context.Context, s Streams, verb string, every time.Duration, once func() error) error {
	if every == 0 {
		return once()
	}
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if err := once(); err != nil && ctx.Err() == nil && !errors.Is(err, ErrReported) {
			s.Sayf("idemsk %s: %s\n", verb, term.EscapeLines(err.Error()))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}
