package runtimeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Function is a Lambda function that runs in one process at a time. It is safe for concurrent use.
type Function struct {
	cfg      Config
	turns    chan struct{} // holds a token of each Invoke that has the process
	starting chan struct{} // holds the token of the Invoke that replaces the process
	closing  chan struct{} // closed by the first Close
	close    sync.Once

	mu     sync.Mutex
	proc   *process // the latest, dead or alive
	starts int
}

// Result is the answer to an invocation.
type Result struct {
	RequestID string
	Payload   []byte // the answer, as it was sent
}

// Start starts the function's first process and returns when it asks for work. ctx bounds only the start.
// The error is a *StartError if the command is the cause.
func Start(ctx context.Context, cfg Config) (*Function, error) {
	cfg, err := resolve(cfg)
	if err != nil {
		return nil, err
	}
	f := &Function{cfg: cfg, turns: make(chan struct{}, cfg.Concurrency), starting: make(chan struct{}, 1),
		closing: make(chan struct{})}
	if _, err := f.launch(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// Invoke calls the function with an event of at most MaxPayload bytes and waits for its answer. More calls at
// once than Config.Concurrency wait for each other. If the process has ended, Invoke first starts a new one,
// which does not count towards the function's timeout.
//
// Errors: *FunctionError, *CrashError and *TimeoutError mean that the function failed, *StartError that its
// new process did not start, *PayloadError that the event is too large; ErrClosed; or the context's cause. They
// are also ErrNotTaken if no process got the whole event, so that it had no effect. If the context ends during the
// invocation, Invoke kills the process, because its result is no longer needed.
// A process that handles several invocations at once goes on after a timeout or the end of a context.
// Invoke does not use the payload after it has returned.
func (f *Function) Invoke(ctx context.Context, payload []byte) (Result, error) {
	if len(payload) > MaxPayload {
		return Result{}, notTakenError{&PayloadError{Function: f.cfg.Name, Size: len(payload), Limit: MaxPayload}}
	}
	if ctx.Err() != nil {
		return Result{}, notTakenError{f.givenUp(ctx, "before it began")}
	}
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return Result{}, notTakenError{f.givenUp(ctx, "while it waited for its turn")}
	}
	if f.cfg.Concurrency > 1 {
		payload = bytes.Clone(payload) // an abandoned invocation may still be written to the process
	}
	for range 2 { // the next request for work, or the next process, gets an event that was lost
		inv := newInvocation(payload)
		p, err := f.handOver(ctx, inv)
		if err != nil {
			return Result{}, notTakenError{err}
		}
		if result, err := f.await(ctx, p, inv); !errors.Is(err, errLost) {
			return result, err
		}
	}
	return Result{}, notTakenError{fmt.Errorf("invocation of function %s: %w", f.cfg.Name, errLost)}
}

// Kill sends SIGKILL to the process and its group, and reports whether there was a process. The current
// invocation ends with a *CrashError, unless its answer has arrived. Kill does not wait, and may be called
// from Config.Stdout and Stderr.
func (f *Function) Kill() bool {
	p := f.current()
	return p != nil && p.kill()
}

// Signal sends a signal, such as SIGSTOP, to the process and its group, if there is one.
func (f *Function) Signal(sig syscall.Signal) {
	if p := f.current(); p != nil {
		p.signal(sig)
	}
}

// Starts returns the number of processes that were started, including the first one.
func (f *Function) Starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// PID returns the ID of the latest process.
func (f *Function) PID() int { return f.current().cmd.Process.Pid }

// Close ends the process with SIGTERM, and with SIGKILL after Config.StopTimeout or when the context ends.
// The current invocation ends with ErrClosed, unless its answer arrives in time; waiting ones end with
// ErrClosed. When Close returns, the process has ended, its port is free and all its output has been
// delivered. Further calls have no effect.
func (f *Function) Close(ctx context.Context) {
	f.close.Do(func() { close(f.closing) })
	if p := f.current(); p != nil {
		p.stop(ctx, f.cfg.StopTimeout)
	}
}

func (f *Function) current() *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proc
}

// launch starts a process and waits until it asks for work.
func (f *Function) launch(ctx context.Context) (*process, error) {
	p, err := f.spawn(ctx)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(f.cfg.InitTimeout)
	defer timer.Stop()
	late := false
	select {
	case <-p.api.asked:
		return p, nil
	case reported := <-p.api.initError:
		p.leave(ctx, f.cfg.StopTimeout) // what it prints on its way out belongs to the report
		return nil, f.startError(p, reported)
	case <-p.exited:
	case <-timer.C:
		late = true
	case <-ctx.Done():
		p.end()
		return nil, fmt.Errorf("start of function %s was given up: %w", f.cfg.Name, context.Cause(ctx))
	}
	p.end()
	select {
	case reported := <-p.api.initError:
		return nil, f.startError(p, reported)
	default:
	}
	switch {
	case f.closed():
		return nil, f.closedError()
	case late:
		return nil, f.startError(p, ErrInitTimeout)
	}
	return nil, f.startError(p, ErrInitExit)
}

// spawn holds the lock for the start, so that Close either finds the new process or prevents it.
func (f *Function) spawn(ctx context.Context) (*process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed() {
		return nil, f.closedError()
	}
	p, err := startProcess(ctx, &f.cfg)
	if err != nil {
		return nil, err
	}
	f.proc = p
	f.starts++
	return p, nil
}

// handOver gives the invocation to the process, or to a new one if the old one has ended or no longer asks
// for work.
func (f *Function) handOver(ctx context.Context, inv *invocation) (*process, error) {
	last := f.current()
	if last != nil {
		if err := f.offer(ctx, last, inv); !errors.Is(err, errGone) {
			return last, err
		}
	}
	p, err := f.replace(ctx, last)
	if err != nil {
		return nil, err
	}
	if err := f.offer(ctx, p, inv); errors.Is(err, errGone) {
		return nil, f.crashed(p, inv) // one that dies at once is not tried for ever
	} else if err != nil {
		return nil, err
	}
	return p, nil
}

// replace returns the successor of a process, which it starts unless another Invoke has started it.
func (f *Function) replace(ctx context.Context, last *process) (*process, error) {
	select {
	case f.starting <- struct{}{}:
		defer func() { <-f.starting }()
	case <-ctx.Done():
		return nil, f.givenUp(ctx, "before the function took it")
	}
	if p := f.current(); p != last {
		return p, nil
	}
	return f.launch(ctx)
}

var errGone = errors.New("the process is gone")

// offer waits until the process takes the invocation. The process may still be busy after its last answer.
// Like AWS, offer waits for up to the function's timeout, and then ends the process. A process that may have
// other invocations is not ended.
func (f *Function) offer(ctx context.Context, p *process, inv *invocation) error {
	if p.killed.Load() {
		<-p.exited
	}
	select {
	case <-p.api.asked:
	case <-p.exited:
		return errGone
	case <-ctx.Done():
		return f.givenUp(ctx, "before the function took it")
	}
	timer := time.NewTimer(f.cfg.Timeout)
	defer timer.Stop()
	select {
	case p.api.work <- inv:
		return nil
	case <-p.exited:
		return errGone
	case <-timer.C:
		if f.cfg.Concurrency > 1 {
			return f.timedOut(p, inv)
		}
		p.end()
		return errGone
	case <-ctx.Done():
		return f.givenUp(ctx, "before the function took it")
	}
}

var errLost = errors.New("its process closed the connection to the Runtime API before it had the event")

// await waits for the answer, the end of the process, the timeout, or the end of the context. It returns
// errLost if the process has not got the event.
func (f *Function) await(ctx context.Context, p *process, inv *invocation) (Result, error) {
	timer := time.NewTimer(f.cfg.Timeout)
	defer timer.Stop()
	answered := func(a answer) (Result, error) {
		p.output.sync()
		switch {
		case a.lost:
			return Result{}, errLost
		case a.err != nil:
			return Result{}, a.err
		}
		return Result{RequestID: inv.id, Payload: a.payload}, nil
	}
	fail, late := f.crashed, true
	select {
	case a := <-inv.answer:
		return answered(a)
	case <-p.exited:
		late = false
	case <-timer.C:
		fail = f.timedOut
	case <-ctx.Done():
		fail = f.dropped(ctx)
	}
	if f.cfg.Concurrency > 1 {
		p.api.abandon(inv)
	} else {
		p.end()
	}
	select {
	case a := <-inv.answer: // it came all the same
		if a.lost && late {
			return Result{}, notTakenError{fail(p, inv)}
		}
		return answered(a)
	default:
	}
	if err := p.api.reported(inv); err != nil {
		return answered(answer{err: err})
	}
	return Result{}, fail(p, inv)
}

func (f *Function) closed() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

func (f *Function) closedError() error { return fmt.Errorf("function %s: %w", f.cfg.Name, ErrClosed) }

func (f *Function) givenUp(ctx context.Context, when string) error {
	return fmt.Errorf("invocation of function %s was given up %s: %w", f.cfg.Name, when, context.Cause(ctx))
}

// dropped returns the error of an invocation whose context has ended.
func (f *Function) dropped(ctx context.Context) func(*process, *invocation) error {
	when := "and the function was killed"
	if f.cfg.Concurrency > 1 {
		when = "after the function took it"
	}
	return func(*process, *invocation) error { return f.givenUp(ctx, when) }
}

func (f *Function) crashed(p *process, inv *invocation) error {
	if f.closed() {
		return f.closedError()
	}
	status, code := p.status()
	return &CrashError{
		Function: f.cfg.Name, RequestID: inv.id, Status: status, ExitCode: code, Killed: p.killed.Load(),
		Refused: p.api.lastRefused(), Output: p.output.last(),
	}
}

func (f *Function) timedOut(p *process, inv *invocation) error {
	return &TimeoutError{
		Function: f.cfg.Name, RequestID: inv.id, Limit: f.cfg.Timeout, Killed: f.cfg.Concurrency == 1,
		Refused: p.api.lastRefused(), Output: p.output.last(),
	}
}

// startError returns the error of a process that ran and never asked for work.
func (f *Function) startError(p *process, cause error) *StartError {
	e := &StartError{
		Function: f.cfg.Name, Command: f.cfg.Command, Err: cause,
		Refused: p.api.lastRefused(), Output: p.output.last(),
	}
	var reported *FunctionError
	switch {
	case errors.As(cause, &reported):
		e.Problem = fmt.Sprintf("it reported an initialization error: %s: %s", reported.Type,
			reported.Message)
		e.Advice = "fix the reported error"
	case errors.Is(cause, ErrInitTimeout):
		e.Problem = fmt.Sprintf("it did not ask for work within %s and was killed", f.cfg.InitTimeout)
		e.Advice = "it must be a Lambda function, which asks at http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime/invocation/next; " +
			"if it only needs longer, raise the initialization timeout"
	default:
		status, _ := p.status()
		e.Problem = fmt.Sprintf("it ended before it asked for work: %s", status)
		e.Advice = "fix the error in its output"
	}
	return e
}
