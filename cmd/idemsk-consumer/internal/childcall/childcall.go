// Package childcall calls an unmodified Lambda function in child processes, over the Lambda Runtime API: it
// is a layercall.Runtime.
//
// Each process handles one call at a time. A process that ends in a call, or does not answer it in time, is
// killed with its process group, and the call has failed. The next call starts another process. While none
// can be started, calls are idem.Unavailable. The processes end with this one.
package childcall

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// MaxEvent is the size of the largest event that a function gets, in bytes.
const MaxEvent = runtimeapi.MaxPayload

// initTimeout is the maximum time until a new process asks for work. It is longer than on AWS, where a
// process has a core to itself when it starts.
const initTimeout = time.Minute

// Config configures a Pool. All fields are required.
type Config struct {
	Command   []string
	Processes int
	Timeout   time.Duration // of a call, 1 s to 15 min
	Name      string        // of the function
	// Env has the variables of the function, NAME=VALUE. Those of idemsk are left out, because they may have
	// passwords.
	Env            []string
	Stdout, Stderr io.Writer // get the lines that the processes print
}

// Pool is a number of processes of a function. It is safe for concurrent use.
type Pool struct {
	idle chan *runtimeapi.Function
	all  []*runtimeapi.Function
}

// Start starts the processes, and returns when each asks for work. The error says what prevents it.
func Start(ctx context.Context, cfg Config) (*Pool, error) {
	var printing sync.Mutex
	lines := func(w io.Writer) func(line []byte) {
		return func(line []byte) {
			printing.Lock()
			defer printing.Unlock()
			_, _ = w.Write(append(bytes.Clone(line), '\n')) // a closed pipe must not end the calls
		}
	}
	p := &Pool{idle: make(chan *runtimeapi.Function, cfg.Processes)}
	functions, errs := make([]*runtimeapi.Function, cfg.Processes), make([]error, cfg.Processes)
	var starting sync.WaitGroup
	for i := range cfg.Processes {
		starting.Go(func() {
			functions[i], errs[i] = runtimeapi.Start(ctx, runtimeapi.Config{
				Command: cfg.Command, Name: cfg.Name, Timeout: cfg.Timeout, InitTimeout: initTimeout,
				Env:    environment(cfg.Env),
				Region: region(cfg.Env),
				Stdout: lines(cfg.Stdout), Stderr: lines(cfg.Stderr),
			})
		})
	}
	starting.Wait()
	for _, f := range functions {
		if f != nil {
			p.all = append(p.all, f)
			p.idle <- f
		}
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		p.Close(ctx)
		return nil, withoutOutput(errs[i]) // that of the others is the same
	}
	return p, nil
}

// environment returns the variables that a function gets.
func environment(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all),
		func(v string) bool { return strings.HasPrefix(v, "IDEMSK_") })
}

// region returns the region in the environment, "" if there is none.
func region(env []string) string {
	value := func(name string) (value string) {
		for _, v := range env {
			if n, text, _ := strings.Cut(v, "="); n == name {
				value = text
			}
		}
		return value
	}
	return cmp.Or(value("AWS_REGION"), value("AWS_DEFAULT_REGION"))
}

// Close ends the processes: with SIGTERM, and after two seconds with SIGKILL.
func (p *Pool) Close(ctx context.Context) {
	var ending sync.WaitGroup
	for _, f := range p.all {
		ending.Go(func() { f.Close(ctx) })
	}
	ending.Wait()
}

// Call is the layercall.Runtime. It waits for a process that has no other call.
func (p *Pool) Call(ctx context.Context, event []byte) ([]byte, error) {
	var f *runtimeapi.Function
	select {
	case f = <-p.idle:
	case <-ctx.Done():
		return nil, idem.Unavailable(fmt.Errorf("all processes of the function are busy: %w",
			context.Cause(ctx)))
	}
	defer func() { p.idle <- f }()
	result, err := f.Invoke(ctx, event)
	if err != nil {
		return nil, failure(err)
	}
	return result.Payload, nil
}

// failure returns the error of a call by that of an invocation.
func failure(err error) error {
	var failed *runtimeapi.FunctionError
	var large *runtimeapi.PayloadError
	switch taken := !errors.Is(err, runtimeapi.ErrNotTaken); {
	case errors.As(err, &large):
		return idem.Permanent(err)
	case !taken: // the function of a process that does not start may have reported an error
		return idem.Unavailable(withoutOutput(err))
	case errors.As(err, &failed) && failed.Last:
		return idem.OutcomeUnknown(fmt.Errorf("%w (the function's process ended)", layercall.FunctionError(failed.Type, failed.Payload)))
	case errors.As(err, &failed) && !failed.Rejected:
		return layercall.FunctionError(failed.Type, failed.Payload)
	}
	// it crashed, gave no answer, or none that can be taken, in time, or was given up
	return idem.OutcomeUnknown(withoutOutput(err))
}

// withoutOutput returns an error without the lines that the function printed. Those are in the function's own
// log, and may have values of records, which errors bring into other logs, entries and dead letters.
func withoutOutput(err error) error {
	var crash *runtimeapi.CrashError
	var late *runtimeapi.TimeoutError
	var start *runtimeapi.StartError
	switch {
	case errors.As(err, &crash):
		crash.Output = nil
	case errors.As(err, &late):
		late.Output = nil
	case errors.As(err, &start):
		start.Output = nil
	}
	return err
}

// Starts returns the number of processes that were started.
func (p *Pool) Starts() (n int) {
	for _, f := range p.all {
		n += f.Starts()
	}
	return n
}
