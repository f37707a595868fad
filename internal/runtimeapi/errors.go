package runtimeapi

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrClosed is what Invoke returns when the Function has been closed, before or in the middle of the invocation.
	ErrClosed = errors.New("the function is closed")
	// ErrInitTimeout is the cause of a StartError: the process never asked for work.
	ErrInitTimeout = errors.New("it never asked for work")
	// ErrInitExit is the cause of a StartError: the process ended before it asked for work.
	ErrInitExit = errors.New("it ended before it asked for work")
)

// FunctionError is an invocation that the function failed: it answered with an error, or with something that Lambda
// does not take for an answer, such as one over the size limit. It is the cause of a StartError too, when the function
// reported an initialization error (RequestID is empty then).
type FunctionError struct {
	Function  string // its name
	RequestID string
	// Type and Message are errorType and errorMessage of the answer. AWS's types for its own findings are
	// Function.ResponseSizeTooLarge, Runtime.InvalidResponseModeHeader and, where the function named none,
	// Runtime.Unknown.
	Type, Message string
	// StackTrace has one text a frame, whatever shape the runtime gave it.
	StackTrace []string
	// Payload is the answer as it was sent.
	Payload []byte
}

func (e *FunctionError) Error() string {
	if e.RequestID == "" {
		return fmt.Sprintf("function %s failed to initialize: %s: %s", e.Function, e.Type, e.Message)
	}
	return fmt.Sprintf("function %s failed: RequestId: %s Error: %s: %s", e.Function, e.RequestID, e.Type, e.Message)
}

// CrashError is an invocation in which the process ended: by itself, by a signal from outside, or by Function.Kill.
type CrashError struct {
	Function  string // its name
	RequestID string
	// Status is how it ended, such as "exit status 2" or "signal: killed".
	Status string
	// ExitCode is the exit code, -1 when a signal ended it.
	ExitCode int
	// Killed says that Function.Kill was called.
	Killed bool
	// Refused is the last request of the process that the Runtime API refused in this invocation, empty if none.
	Refused string
	// Output is the last of what the process printed, both streams.
	Output []string
}

// Type is the errorType that AWS reports for it.
func (e *CrashError) Type() string { return "Runtime.ExitError" }

// Message is the errorMessage that AWS reports for it.
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
	return fmt.Sprintf("function %s crashed: %s: %s%s%s", e.Function, e.Type(), e.Message(), by, details(e.Refused, e.Output))
}

// TimeoutError is an invocation that was not answered within the function's timeout. The process was killed.
type TimeoutError struct {
	Function  string // its name
	RequestID string
	Limit     time.Duration // the function's timeout
	Refused   string        // as in CrashError
	Output    []string      // as in CrashError
}

// Type is the errorType that AWS reports for it.
func (e *TimeoutError) Type() string { return "Sandbox.Timedout" }

// Message is the errorMessage that AWS reports for it.
func (e *TimeoutError) Message() string {
	return fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", e.RequestID, e.Limit.Seconds())
}

// Timeout marks it as a timeout for those who ask by interface.
func (e *TimeoutError) Timeout() bool { return true }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("function %s timed out and was killed: %s%s", e.Function, e.Message(), details(e.Refused, e.Output))
}

// StartError is a process that could not be started, or that never came to ask for work. Nothing is left of it.
type StartError struct {
	Function string // its name
	Command  []string
	Problem  string   // what happened
	Advice   string   // what to do about it
	Refused  string   // the last request of the process that the Runtime API refused, empty if none
	Output   []string // the last of what it printed, both streams
	// Err is the cause: ErrInitTimeout, ErrInitExit, a *FunctionError that the process reported, or an error of the
	// operating system such as fs.ErrNotExist or fs.ErrPermission.
	Err error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("function %s (%s) did not start: %s: %s%s", e.Function, strings.Join(e.Command, " "), e.Problem, e.Advice,
		details(e.Refused, e.Output))
}

func (e *StartError) Unwrap() error { return e.Err }

// PayloadError is an event that is too large to be sent. The function was not called.
type PayloadError struct {
	Function    string // its name
	Size, Limit int    // bytes
}

func (e *PayloadError) Error() string {
	return fmt.Sprintf("event for function %s is too large: %d bytes, the limit is %d: send fewer records", e.Function, e.Size, e.Limit)
}

// details are the lines under a message that help to find the cause.
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
