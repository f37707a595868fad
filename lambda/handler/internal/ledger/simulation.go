package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/idem"
)

// simulation produces the failures that payments request, with IDEMSK_SIMULATE=on.
type simulation struct {
	exit   func(code int)
	freeze func() error // stops the process

	mu    sync.Mutex
	tries map[string]int // attempts in this process: without a store each is the first of its key
}

func newSimulation() *simulation {
	return &simulation{exit: os.Exit, freeze: freeze, tries: make(map[string]int)}
}

// freeze stops the process until its host kills it, as Lambda does when the invocation times out. A handler
// that sleeps is not enough for that: the engine answers in time without it.
func freeze() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

var errSimulated = errors.New("simulated failure")

// exitCode is the exit status of a simulated crash.
const exitCode = 3

// run produces the failure that the payment requests: "permanent", "retry", "retry:N" (fails N times),
// "panic", "exit" (the process dies), "freeze:N" (the process stops, N times), "sleep:200ms".
func (s *simulation) run(ctx context.Context, p Payment) error {
	kind, arg, _ := strings.Cut(p.Simulate, ":")
	switch kind {
	case "":
		return nil
	case "permanent":
		return idem.Permanent(errSimulated)
	case "retry":
		return s.retry(ctx, p, arg)
	case "freeze":
		if err := s.retry(ctx, p, arg); !errors.Is(err, errSimulated) {
			return err
		}
		return errors.Join(errSimulated, s.freeze())
	case "panic":
		panic(errSimulated)
	case "exit":
		s.exit(exitCode)
		return errSimulated
	case "sleep":
		return pause(ctx, arg)
	}
	return idem.Permanent(fmt.Errorf("simulate is %q: want permanent, retry, retry:N, panic, exit, freeze:N or sleep:DURATION", p.Simulate))
}

func (s *simulation) retry(ctx context.Context, p Payment, times string) error {
	if times == "" {
		return errSimulated
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		return idem.Permanent(fmt.Errorf("simulate %s: want a number of failures", p.Simulate))
	}
	if s.attempt(ctx, p.PaymentID) <= n {
		return errSimulated
	}
	return nil
}

// attempt returns the number of the attempt: the durable one, or this process's own count if that is more.
func (s *simulation) attempt(ctx context.Context, paymentID string) int {
	a, _ := idem.AttemptFrom(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[paymentID]++
	return max(a.Number, s.tries[paymentID])
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
