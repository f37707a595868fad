package silence_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/internal/network/silence"
)

const limit = 2 * time.Second

var errBroken = errors.New("the connection broke")

func TestExchangeEndsWhenNothingIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		w := silence.Start(t.Context(), limit)
		defer w.Stop()
		for range 5 { // progress just before the limit
			time.AfterFunc(limit-time.Millisecond, w.Heard)
			select {
			case <-w.Context().Done():
				t.Fatalf("given up after %v, though there was progress", time.Since(begun))
			case <-time.After(limit - time.Millisecond):
			}
			synctest.Wait()
		}
		<-w.Context().Done()
		if took, want := time.Since(begun), 5*(limit-time.Millisecond)+limit; took != want {
			t.Errorf("given up after %v, want %v", took, want)
		}
		err := w.Err(context.Canceled)
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v, want a time-out, and not that the caller gave it up", err)
		}
		if err := w.Err(nil); err != nil {
			t.Errorf("an answer that came at the last moment: %v", err)
		}
	})
}

func TestOtherErrorsAreReturnedUnchanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := silence.Start(ctx, limit)
		if err := w.Err(errBroken); !errors.Is(err, errBroken) {
			t.Errorf("%v, want what it ended with", err)
		}
		cancel()
		if err := w.Err(w.Context().Err()); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want that the caller gave it up", err)
		}
		w.Stop()
		time.Sleep(2 * limit) //nolint:forbidigo // time stands still but for this
		if err := w.Err(errBroken); !errors.Is(err, errBroken) {
			t.Errorf("%v, want the watch to have been stopped", err)
		}
	})
}
