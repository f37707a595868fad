package runtimeapi

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrClosed means that the Function was closed before or during the invocation.
	ErrClosed = errors.New("the function is closed")
	// ErrNotTaken means that no process got the whole event of the invocation.
	ErrNotTaken = errors.New("the function did not take the event")
	// ErrInitTimeout is the cause of a StartError: the process never asked for work.
	ErrInitTimeout = errors.New("it never asked for work")
	// ErrInitExit is the cause of a StartError: the process ended before it asked for work.
	ErrInitExit = errors.New("it ended before it asked for work")
)

// notTakenError makes an error an ErrNotTaken, and leaves its text.
type notTakenError struct{ error }

func (n notTakenError) Unwrap() error { return n.error }

func (notTakenError) Is(target error) bool { return target == ErrNotTaken }

// FunctionError means that the function answered with an error, or with an answer that Lambda rejects, such
// as one over the size limit. It is also the cause of a StartError if the function reported an initialization
// error; RequestID is then empty.
type FunctionError struct {
	Function  string // its name
	RequestID string
	// Type and Message are errorType and errorMessage of the answer. The types of errors that Lambda detects
	// are Function.ResponseSizeTooLarge, Runtime.InvalidResponseModeHeader and, if the function named no
	// type, Runtime.Unknown.
	Type, Message string
	// Payload is the answer as it was sent.
	Payload []byte
	// Rejected means that the function returned, and that the Runtime API rejected its answer.
	Rejected bool
	// Last means that the process ended, or was ended, before it asked for work again. The error may be that of
	// another part of the function: runtimes report an uncaught error, and end, while the handler is waiting.
	Last bool
}

func (e *FunctionError) Error() string {
	if e.RequestID == "" {
		return fmt.Sprintf("function %s failed to initialize: %s: %s", e.Function, e.Type, e.Message)
	}
	return fmt.Sprintf("function %s failed: RequestId: %s Error: %s: %s", e.Function, e.RequestID, e.Type,
		e.Message)
}

// CrashError means that the process ended during the invocation: by itself, by a signal, or by Function.Kill.
type CrashError struct {
	Function  string // its name
	RequestID string
	// Status describes the end, such as "exit status 2" or "signal: killed".
	Status string
	// ExitCode is the exit code, or -1 after a signal.
	ExitCode int
	// Killed reports whether Function.Kill was called.
	Killed bool
	// Refused is the last request of the process that the Runtime API refused in this invocation, empty if
	// none.
	Refused string
	// Output is the end of the process's output on both streams.
	Output []string
}

// Type returns the errorType of AWS for it.
func (e *CrashError) Type() string { return "Runtime.ExitError" }

// Message returns the errorMessage of AWS for it.
func (e *CrashError) Message() string {
	if e.ExitCode == 0 {
		return fmt.Sprintf("RequestId: %s Error: Runtime exited without providing a reason", e.RequestID)
	}
	return fmt.Sprintf("RequestId: %s Error: Runtime exited with error: %s", e.RequestID, e.Status)
}

func (e *CrashError) Error() string {
	by := ""
	if e.Killed {
		by = " (killed on request)"
	}
	return fmt.Sprintf("function %s crashed: %s: %s%s%s", e.Function, e.Type(), e.Message(), by,
		details(e.Refused, e.Output))
}

// TimeoutError means that an invocation was not answered within the function's timeout.
type TimeoutError struct {
	Function  string // its name
	RequestID string
	Limit     time.Duration // the function's timeout
	Killed    bool          // the process was killed; not if it handles several invocations at once
	Refused   string        // as in CrashError
	Output    []string      // as in CrashError
}

// Type returns the errorType of AWS for it.
func (e *TimeoutError) Type() string { return "Sandbox.Timedout" }

// Message returns the errorMessage of AWS for it.
func (e *TimeoutError) Message() string {
	return fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", e.RequestID,
		e.Limit.Seconds())
}

// Timeout returns true, as in net.Error.
func (e *TimeoutError) Timeout() bool { return true }

func (e *TimeoutError) Error() string {
	what := "timed out"
	if e.Killed {
		what = "timed out and was killed"
	}
	return fmt.Sprintf("function %s %s: %s%s", e.Function, what, e.Message(), details(e.Refused, e.Output))
}

// StartError means that a process could not be started, or did not ask for work. None of its processes is
// left.
type StartError struct {
	Function string // its name
	Command  []string
	Problem  string   // what happened
	Advice   string   // what to do about it
	Refused  string   // the last request of the process that the Runtime API refused, empty if none
	Output   []string // the last of what it printed, both streams
	// Err is the cause: ErrInitTimeout, ErrInitExit, a *FunctionError that the process reported, or an error
	// of the operating system such as fs.ErrNotExist or fs.ErrPermission.
	Err error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("function %s (%s) did not start: %s: %s%s", e.Function, strings.Join(e.Command, " "),
		e.Problem, e.Advice,
		details(e.Refused, e.Output))
}

func (e *StartError) Unwrap() error { return e.Err }

// PayloadError means that an event is too large. The function was not called.
type PayloadError struct {
	Function    string // its name
	Size, Limit int    // bytes
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("event for function %s is too large: %d bytes, the limit is %d: send fewer records",
		e.Function, e.Size, e.Limit)
}

// details returns the lines after a message that help to find the cause.
func details(refused string, output []string) string {
	var b strings.Builder
	if refused != "" {
		b.WriteString("\n  its last refused request: " + refused)
	}
	if len(output) > 0 {
		b.WriteString("\n  its last output:\n    " + strings.Join(output, "\n    "))
	}
	return b.String()
}
