package runtimeapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

func TestInvokeAnswers(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	for i := range 3 {
		event := fmt.Sprintf(`{"do":"echo","count":%d}`, i)
		result := invoke(t, f, event)
		if string(result.Payload) != event {
			t.Errorf("payload %s, want %s", result.Payload, event)
		}
	}
	wantStarts(t, f, 1)
}

func TestInvokePassesItsContextToTheFunction(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	cfg.Timeout, cfg.Region, cfg.MemoryMB = 90*time.Second, "eu-central-1", 512
	f := start(t, cfg)
	before := time.Now()
	result := invoke(t, f, `{"do":"context"}`)
	after := time.Now()
	var got struct {
		ID, ARN, Trace   string
		Deadline, Memory int64
	}
	if err := json.Unmarshal(result.Payload, &got); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(got.ID) {
		t.Errorf("request id %q is no UUID", got.ID)
	}
	if got.ID != result.RequestID {
		t.Errorf("the function saw request id %s, the caller %s", got.ID, result.RequestID)
	}
	if want := "arn:aws:lambda:eu-central-1:000000000000:function:payments"; got.ARN != want {
		t.Errorf("ARN %s, want %s", got.ARN, want)
	}
	if !regexp.MustCompile(`^Root=1-[0-9a-f]{8}-[0-9a-f]{24};Parent=[0-9a-f]{16};Sampled=0$`).MatchString(
		got.Trace) {
		t.Errorf("trace id %q", got.Trace)
	}
	if earliest, latest := before.Add(cfg.Timeout).UnixMilli(),
		after.Add(cfg.Timeout).UnixMilli(); got.Deadline < earliest || got.Deadline > latest {
		t.Errorf("deadline %d, want within %d and %d", got.Deadline, earliest, latest)
	}
	if got.Memory != 512 {
		t.Errorf("memory %d", got.Memory)
	}
}

func TestFunctionErrorsLeaveTheProcessAlive(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	e := fails[*runtimeapi.FunctionError](t, f, `{"do":"error","text":"no such account"}`)
	if e.Type != "errorString" || e.Message != "no such account" {
		t.Errorf("got %+v", e)
	}
	if want := `{"errorMessage":"no such account","errorType":"errorString"}`; string(e.Payload) != want {
		t.Errorf("payload %s, want %s", e.Payload, want)
	}
	if want := "function payments failed: RequestId: " + e.RequestID +
		" Error: errorString: no such account"; e.Error() != want {
		t.Errorf("error %q, want %q", e, want)
	}
	e = fails[*runtimeapi.FunctionError](t, f, `{"do":"typed error"}`)
	if e.Type != "PaymentError" || e.Message != "account 4711 is closed" {
		t.Errorf("got %+v", e)
	}
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 1)
}

func TestPanicIsAFunctionErrorAndTheNextProcessIsNew(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	for i := range 5 { // the process exits after its answer: each time in a race with the next Invoke
		e := fails[*runtimeapi.FunctionError](t, f, `{"do":"panic","text":"index out of luck"}`)
		if e.Type != "string" || e.Message != "index out of luck" {
			t.Errorf("got %+v", e)
		}
		wantStarts(t, f, i+1)
	}
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 6)
}

func TestCrash(t *testing.T) {
	t.Parallel()
	for code, message := range map[int]string{
		3: "Error: Runtime exited with error: exit status 3",
		0: "Error: Runtime exited without providing a reason",
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			f := start(t, config(t, "lambda"))
			e := fails[*runtimeapi.CrashError](t, f, fmt.Sprintf(`{"do":"exit","count":%d}`, code))
			if e.Message() != "RequestId: "+e.RequestID+" "+message || e.Type() != "Runtime.ExitError" {
				t.Errorf("type %s, message %s", e.Type(), e.Message())
			}
			if e.ExitCode != code || e.Status != fmt.Sprintf("exit status %d", code) || e.Killed {
				t.Errorf("got %+v", e)
			}
			if !strings.HasSuffix(e.Error(), "its last output:\n    out of luck") {
				t.Errorf("error %q does not show the output", e)
			}
			invoke(t, f, `{"do":"echo"}`)
			wantStarts(t, f, 2)
		})
	}
}

func TestTimeoutKillsTheWholeGroup(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	cfg.Timeout = time.Second
	f := start(t, cfg)
	held := newFIFO(t)
	e := fails[*runtimeapi.TimeoutError](t, f, fmt.Sprintf(`{"do":"hang with child","text":%q}`, held.path))
	if want := "RequestId: " + e.RequestID +
		" Error: Task timed out after 1.00 seconds"; e.Message() != want || e.Type() != "Sandbox.Timedout" {
		t.Errorf("type %s, message %s, want %s", e.Type(), e.Message(), want)
	}
	if want := "function payments timed out and was killed: " + e.Message() +
		"\n  its last output:\n    held"; e.Error() != want {
		t.Errorf("error %q, want %q", e, want)
	}
	if timeout, ok := error(e).(interface{ Timeout() bool }); !ok || !timeout.Timeout() {
		t.Error("it does not say that it is a timeout")
	}
	held.waitReleased(t)
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 2)
}

func TestCrashEndsTheChildren(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	held := newFIFO(t)
	e := fails[*runtimeapi.CrashError](t, f,
		fmt.Sprintf(`{"do":"exit and leave a child","text":%q}`, held.path))
	if e.ExitCode != 6 {
		t.Errorf("got %+v", e)
	}
	held.waitReleased(t)
}

func TestDeadIdleProcessFailsNoInvocation(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	died := make(chan struct{}, 1)
	cfg.Stdout = func([]byte) { died <- struct{}{} } // the unfinished line, which comes at the end
	f := start(t, cfg)
	for i := range 20 {
		var pid int
		if err := json.Unmarshal(invoke(t, f, `{"do":"pid"}`).Payload, &pid); err != nil {
			t.Fatal(err)
		}
		invoke(t, f, `{"do":"print raw","text":"unfinished"}`)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-died
		wantStarts(t, f, i+1)
	}
}

func TestKillDuringAnInvocation(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	var f *runtimeapi.Function
	cfg.Stdout = func(line []byte) {
		if string(line) == "hanging" && !f.Kill() {
			t.Error("Kill found nothing to kill")
		}
	}
	f = start(t, cfg)
	e := fails[*runtimeapi.CrashError](t, f, `{"do":"hang"}`)
	if !e.Killed || e.Status != "signal: killed" || e.ExitCode != -1 {
		t.Errorf("got %+v", e)
	}
	if !strings.Contains(e.Error(), "killed on request") {
		t.Errorf("error %q", e)
	}
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 2)
}

func TestKillOfAnIdleProcessFailsNoInvocation(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	for range 5 {
		if !f.Kill() {
			t.Fatal("Kill found nothing to kill")
		}
		invoke(t, f, `{"do":"echo"}`)
	}
	wantStarts(t, f, 6)
	f.Close(context.Background())
	if f.Kill() {
		t.Error("Kill found something after Close")
	}
}

func TestInvokeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	cfg.Stdout = func([]byte) { cancel(enough) }
	f := start(t, cfg)
	if _, err := f.Invoke(ctx, []byte(`{"do":"hang"}`)); !errors.Is(err, enough) ||
		!strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v, want %v", err, enough)
	}
	if _, err := f.Invoke(ctx, []byte(`{"do":"echo"}`)); !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
	wantStarts(t, f, 1)
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 2)
}

func TestWaitingInvokeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda")
	hanging := make(chan struct{})
	cfg.Stdout = func([]byte) { close(hanging) }
	f := start(t, cfg)
	first := make(chan error)
	go func() {
		_, err := f.Invoke(context.Background(), []byte(`{"do":"hang"}`))
		first <- err
	}()
	<-hanging
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.Invoke(ctx, []byte(`{"do":"echo"}`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	f.Kill()
	var crash *runtimeapi.CrashError
	if err := <-first; !errors.As(err, &crash) {
		t.Errorf("error %v, want a crash", err)
	}
}

func TestInvokeEndsWithItsContextWithoutKillingABusyProcess(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "answers and never asks again"))
	invoke(t, f, "{}")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := f.Invoke(ctx, []byte("{}"))
	if !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "before the function took it") {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	if !f.Kill() {
		t.Error("the process is gone")
	}
}

func TestConcurrentInvokesTakeTurns(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			event := fmt.Sprintf(`{"do":"echo","count":%d}`, i)
			result, err := f.Invoke(context.Background(), []byte(event))
			if err != nil || string(result.Payload) != event {
				t.Errorf("event %s: answer %s, error %v", event, result.Payload, err)
			}
		})
	}
	wg.Wait()
	wantStarts(t, f, 1)
}

func TestSizes(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	head, tail := `{"do":"echo","text":"`, `"}`
	event := head + strings.Repeat("a", runtimeapi.MaxPayload-len(head)-len(tail)) + tail
	if result := invoke(t, f, event); !bytes.Equal(result.Payload, []byte(event)) {
		t.Errorf("the largest event came back with %d bytes, or changed", len(result.Payload))
	}
	e := fails[*runtimeapi.PayloadError](t, f, event+" ")
	if want := "event for function payments is too large: 6291457 bytes, the limit is 6291456: send fewer records"; e.Error() != want {
		t.Errorf("error %q, want %q", e, want)
	}
	result := invoke(t, f, fmt.Sprintf(`{"do":"answer of size","count":%d}`, runtimeapi.MaxResponse))
	if len(result.Payload) != runtimeapi.MaxResponse {
		t.Errorf("the largest answer has %d bytes", len(result.Payload))
	}
	wantStarts(t, f, 1)
	tooLarge := fails[*runtimeapi.FunctionError](t, f, `{"do":"answer of size","count":7000000}`)
	want := "Response payload size (7000000 bytes) exceeded maximum allowed payload size (6291556 bytes)."
	if tooLarge.Type != "Function.ResponseSizeTooLarge" || tooLarge.Message != want {
		t.Errorf("got %s: %s", tooLarge.Type, tooLarge.Message)
	}
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 2) // aws-lambda-go exits when its answer is refused
}

func TestErrorAtTheEndOfAStream(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "lambda"))
	e := fails[*runtimeapi.FunctionError](t, f, `{"do":"stream that fails","text":"the disk is gone"}`)
	if e.Type != "errorString" || e.Message != "the disk is gone" {
		t.Errorf("got %+v", e)
	}
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 1)
}

// The function's answer and its next request for work are lost. The function's timeout ends the invocation,
// and a new process serves the next one.
func TestFunctionTimesOutWhenItsAnswerIsLost(t *testing.T) {
	t.Parallel()
	cfg := config(t, "lambda in a network that falls silent")
	cfg.Timeout = 2 * time.Second
	f := start(t, cfg)
	invoke(t, f, `{"do":"go on"}`)
	begun := time.Now()
	fails[*runtimeapi.TimeoutError](t, f, `{"do":"fall silent"}`)
	if took := time.Since(begun); took > 5*cfg.Timeout {
		t.Errorf("it took %v, with a timeout of %v", took, cfg.Timeout)
	}
	if result := invoke(t, f, `{"do":"go on"}`); string(result.Payload) != `"go on"` || f.Starts() != 2 {
		t.Errorf("%s, after %d starts; want the answer of a second process", result.Payload, f.Starts())
	}
}
