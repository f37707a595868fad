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

// simulation produces the failures that payments request, with IDEMSK_SIMULATE=on.
type simulation struct {
	exit func(code int)

	mu    sync.Mutex
	tries map[string]int // attempts of unprotected payments, which have no durable count
}

func newSimulation() *simulation { return &simulation{exit: os.Exit, tries: make(map[string]int)} }

var errSimulated = errors.New("simulated failure")

// exitCode is the exit status of a simulated crash.
const exitCode = 3

// run produces the failure that the payment requests: "permanent", "retry", "retry:N" (fails N times),
// "panic", "exit" (the process dies), "sleep:200ms".
func (s *simulation) run(ctx context.Context, p Payment) error {
	kind, arg, _ := strings.Cut(p.Simulate, ":")
	switch kind {
	case "":
		return nil
	case "permanent":
		return idem.Permanent(errSimulated)
	case "retry":
		return s.retry(ctx, p.PaymentID, arg)
	case "panic":
		panic(errSimulated)
	case "exit":
		s.exit(exitCode)
		return errSimulated
	case "sleep":
		return pause(ctx, arg)
	}
	return idem.Permanent(fmt.Errorf("simulate is %q: want permanent, retry, retry:N, panic, exit or sleep:DURATION", p.Simulate))
}

func (s *simulation) retry(ctx context.Context, paymentID, times string) error {
	if times == "" {
		return errSimulated
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		return idem.Permanent(fmt.Errorf("simulate retry:%s: want a number of failures", times))
	}
	if s.attempt(ctx, paymentID) <= n {
		return errSimulated
	}
	return nil
}

// attempt returns the number of the attempt: the durable one, or this process's own count for unprotected
// payments.
func (s *simulation) attempt(ctx context.Context, paymentID string) int {
	if a, ok := idem.AttemptFrom(ctx); ok {
		return a.Number
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[paymentID]++
	return s.tries[paymentID]
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
