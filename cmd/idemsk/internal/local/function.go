package local

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/testenv"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// unhandled is Lambda's FunctionError for all failures of a function.
const unhandled = "Unhandled"

// build is the state of the program's last build.
type build int

const (
	works     build = iota // it has handled an event, or is the first one
	untried                // its process has handled nothing yet
	unstarted              // its process did not start
)

// process is an invoker on a process of the function.
type process struct {
	function *runtimeapi.Function
	program  *program
	build    build
	say      func(line string)
	point    *killPoint  // its DynamoDB, if --kill-at names an effect; else nil
	hit      atomic.Bool // kill was called since the last invocation began
	cut      bool        // kill ended the last invocation
	slot     *slot       // records the invocations; may be nil
}

// startProcess starts a process of the function. Its output goes to the log, and its metrics to the tally.
func startProcess(ctx context.Context, o *Options, command, env []string, point *killPoint, s *slot, t *tally,
	log *lineWriter) (*process, error) {
	f, err := runtimeapi.Start(ctx, runtimeapi.Config{
		Command: command,
		Env:     slices.Concat(env, o.Env),
		Name:    o.FunctionName,
		Region:  testenv.Region,
		ARN:     arnOf(o.FunctionName),
		Timeout: o.ESM.Timeout, InitTimeout: o.InitTimeout,
		Stdout: func(line []byte) { t.printed(line); log.line(line); s.line(line) },
		Stderr: func(line []byte) { log.line(line); s.line(line) },
	})
	p := &process{function: f, program: programOf(command, o.Env), say: o.Say, point: point, slot: s}
	if err != nil {
		p.closePoint()
		return nil, advised(err)
	}
	if point != nil {
		point.kill = p.kill
	}
	if s != nil {
		s.process = p
	}
	return p, nil
}

// advised adds the flag for processes that start slowly to the advice of an error.
func advised(err error) error {
	var start *runtimeapi.StartError
	if errors.Is(err, runtimeapi.ErrInitTimeout) && errors.As(err, &start) {
		start.Advice += " (--init-timeout)"
	}
	return err
}

func arnOf(name string) string {
	return "arn:aws:lambda:" + testenv.Region + ":000000000000:function:" + name
}

// Invoke implements esm.Invoker.
func (p *process) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	return p.slot.invoke(ctx, inv, p.invoke)
}

func (p *process) invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	p.cut = false
	p.hit.Store(false)
	if p.program.rebuilt(ctx) {
		p.say("The function was built again: a new process handles the next batch.")
		p.build = untried
		p.function.Kill()
	}
	result, err := p.function.Invoke(ctx, inv.Payload)
	if err == nil {
		p.build = works
		return esm.Answer{RequestID: result.RequestID, Payload: result.Payload}, nil
	}
	var failed *runtimeapi.FunctionError
	var crashed *runtimeapi.CrashError
	var late *runtimeapi.TimeoutError
	var start *runtimeapi.StartError
	switch {
	case errors.Is(err, runtimeapi.ErrInitExit) && p.hit.Load(): // it was killed while it started
		p.cut = true
		return esm.Answer{FunctionError: unhandled, Message: "Runtime.ExitError: killed while it started",
			Injected: true}, nil
	case errors.As(err, &failed):
		return esm.Answer{RequestID: failed.RequestID, FunctionError: unhandled,
			Message: failed.Type + ": " + failed.Message}, nil
	case errors.As(err, &crashed):
		p.cut = crashed.Killed
		return esm.Answer{RequestID: crashed.RequestID, FunctionError: unhandled,
			Message: crashed.Type() + ": " + crashed.Message(), Injected: crashed.Killed}, nil
	case errors.As(err, &late):
		return esm.Answer{RequestID: late.RequestID, FunctionError: unhandled,
			Message: late.Type() + ": " + late.Message()}, nil
	case p.build != works && errors.As(err, &start): // the next build may start
		if p.build == untried {
			p.say(term.Escape(advised(err).Error()))
		}
		p.build = unstarted
		return esm.Answer{}, &esm.UnavailableError{Err: advised(err)}
	}
	return esm.Answer{}, advised(err)
}

// Close implements esm.Invoker.
func (p *process) Close(ctx context.Context) {
	p.function.Close(ctx)
	p.closePoint()
}

func (p *process) closePoint() {
	if p.point != nil {
		_ = p.point.Close()
	}
}

func (p *process) arm() (disarm func(), ok bool) {
	if p.point == nil {
		return nil, false
	}
	p.point.armed.Store(true)
	return func() { p.point.armed.Store(false) }, true
}

func (p *process) kill() {
	p.hit.Store(true)
	p.function.Kill()
}

func (p *process) killed() bool { return p.cut }

func (p *process) number() int { return p.function.Starts() }
