package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// trouble is what IDEMSK_SIMULATE=on allows a payment to ask for.
type trouble struct {
	exit func(code int)

	mu    sync.Mutex
	tries map[string]int // of unprotected payments, whose attempts nobody counts
}

func newTrouble() *trouble { return &trouble{exit: os.Exit, tries: make(map[string]int)} }

var errSimulated = errors.New("simulated failure")

// exitCode is the status with which a simulated crash ends the process.
const exitCode = 3

// make makes the trouble that the payment asks for: "permanent", "retry", "retry:N" (fails N times), "panic", "exit" (the
// process dies), "sleep:200ms".
func (t *trouble) make(ctx context.Context, p Payment) error {
	kind, arg, _ := strings.Cut(p.Simulate, ":")
	switch kind {
	case "":
		return nil
	case "permanent":
		return idem.Permanent(errSimulated)
	case "retry":
		return t.retry(ctx, p.PaymentID, arg)
	case "panic":
		panic(errSimulated)
	case "exit":
		t.exit(exitCode)
		return errSimulated
	case "sleep":
		return pause(ctx, arg)
	}
	return idem.Permanent(fmt.Errorf("simulate is %q: want permanent, retry, retry:N, panic, exit or sleep:DURATION", p.Simulate))
}

func (t *trouble) retry(ctx context.Context, paymentID, times string) error {
	if times == "" {
		return errSimulated
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		return idem.Permanent(fmt.Errorf("simulate retry:%s: want a number of failures", times))
	}
	if t.attempt(ctx, paymentID) <= n {
		return errSimulated
	}
	return nil
}

// attempt is the number of the attempt: the durable one, or, without protection, this process's own count.
func (t *trouble) attempt(ctx context.Context, paymentID string) int {
	if a, ok := idem.AttemptFrom(ctx); ok {
		return a.Number
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tries[paymentID]++
	return t.tries[paymentID]
}

func pause(ctx context.Context, length string) error {
	d, err := time.ParseDuration(length)
	if err != nil {
		return idem.Permanent(fmt.Errorf("simulate sleep:%s: want a duration like 200ms", length))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
