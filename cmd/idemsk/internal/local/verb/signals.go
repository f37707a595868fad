package verb

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// secondSignal returns a channel that receives a value for the first interrupt after ctx is done.
func secondSignal(ctx context.Context) (<-chan struct{}, func()) {
	signals, second, done := make(chan os.Signal, 1), make(chan struct{}, 1), make(chan struct{})
	var end sync.WaitGroup
	end.Go(func() {
		select {
		case <-ctx.Done(): // the first signal was delivered before
		case <-done:
			return
		}
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		select {
		case <-signals:
			second <- struct{}{}
		case <-done:
		}
	})
	return second, func() { close(done); end.Wait() }
}
