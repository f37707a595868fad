package childcall_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/childcall"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// modeVariable makes the test binary a function. Its value "once" lets only the first process start, which
// makes a folder. With "once, then slow" the others do not ask for work.
const modeVariable = "CHILDCALL_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		runFunction(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// event tells the function what to do.
type event struct{ Do string }

type permanentError struct{ error }

func runFunction(mode string) {
	if strings.HasPrefix(mode, "once") {
		if err := os.Mkdir(os.Getenv("STARTED"), 0o700); err != nil {
			fmt.Fprintln(os.Stderr, "it started before, for alice@example.com")
			if mode == "once, then slow" {
				<-time.After(time.Hour)
			}
			os.Exit(3)
		}
	}
	lambda.Start(func(_ context.Context, e event) (string, error) {
		switch e.Do {
		case "die":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "hang":
			select {}
		case "large":
			return strings.Repeat("x", runtimeapi.MaxResponse), nil
		case "panic":
			panic("no such account")
		case "fail":
			return "", errors.New("no such account")
		case "fail for good":
			return "", PermanentError{errors.New("the account is closed")}
		case "environment":
			return os.Getenv("IDEMSK_KAFKA_PASSWORD") + os.Getenv("VISIBLE") + " " + os.Getenv("AWS_REGION") +
				" " + os.Getenv("AWS_LAMBDA_FUNCTION_NAME"), nil
		case "print and die", "print and hang":
			fmt.Println("customer alice@example.com")
			if e.Do == "print and hang" {
				select {}
			}
			os.Exit(1)
		case "print":
			fmt.Println("printed")
			fmt.Fprintln(os.Stderr, "complained")
		case "meet": // the other process, in the folder
			return "", meet(os.Getenv("MEET"))
		}
		return fmt.Sprint(os.Getpid()), nil
	})
}

// PermanentError is an error whose class the caller knows by its name.
type PermanentError permanentError

// meet waits until two processes have made a file.
func meet(folder string) error {
	f, err := os.CreateTemp(folder, "")
	if err != nil {
		return err
	}
	_ = f.Close()
	for began := time.Now(); time.Since(began) < time.Minute; {
		if files, err := os.ReadDir(folder); err != nil || len(files) == 2 {
			return err
		}
		<-time.After(time.Millisecond)
	}
	return errors.New("no other process came")
}

// output is what functions print.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, processes int, mode string, env ...string) (*childcall.Pool, *output) {
	t.Helper()
	out := new(output)
	p, err := childcall.Start(t.Context(), config(t, processes, mode, out, env...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(context.Background()) })
	return p, out
}

func config(t *testing.T, processes int, mode string, out *output, env ...string) childcall.Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return childcall.Config{
		Command: []string{program}, Processes: processes, Timeout: time.Second * 2, Name: "ledger",
		Env:    append(env, modeVariable+"="+mode, "GOCOVERDIR="+t.TempDir(), "AWS_REGION=eu-central-1"),
		Stdout: out, Stderr: out,
	}
}

func call(t *testing.T, p *childcall.Pool, do string) (string, error) {
	t.Helper()
	answer, err := p.Call(t.Context(), fmt.Appendf(nil, `{"do":%q}`, do))
	return string(answer), err
}

// A process that ends in a call, or hangs, fails this call. The next call has another process.
func TestProcessesThatEnd(t *testing.T) {
	t.Parallel()
	p, _ := start(t, 1, "on")
	first, err := call(t, p, "")
	if err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct{ do, says string }{
		{"die", "signal: killed"}, {"hang", "timed out and was killed"}, {"panic", "no such account"},
	} {
		if _, err := call(t, p, tc.do); !idem.IsOutcomeUnknown(err) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want a failure that says %q", tc.do, err, tc.says)
		}
		again, err := call(t, p, "")
		if err != nil || again == first || p.Starts() != i+2 {
			t.Errorf("after %s: process %s, %v, %d starts; want another one than %s", tc.do, again, err,
				p.Starts(), first)
		}
		first = again
	}
}

// The errors of a function have the classes of their names, and do not end its process.
func TestErrorsOfAFunction(t *testing.T) {
	t.Parallel()
	p, out := start(t, 1, "on", "IDEMSK_KAFKA_PASSWORD=secret", "VISIBLE=yes")
	if _, err := call(t, p, "fail"); err == nil || idem.IsPermanent(err) || idem.IsUnavailable(err) ||
		!strings.Contains(err.Error(), "no such account") {
		t.Errorf("%v; want a failure", err)
	}
	if _, err := call(t, p, "fail for good"); !idem.IsPermanent(err) ||
		!strings.Contains(err.Error(), "the account is closed") {
		t.Errorf("%v; want a permanent failure", err)
	}
	if _, err := p.Call(t.Context(), make([]byte, childcall.MaxEvent+1)); !idem.IsPermanent(err) ||
		!strings.Contains(err.Error(), "too large") {
		t.Errorf("an event that is too large: %v; want a permanent failure", err)
	}
	if got, err := call(t, p, "environment"); err != nil || got != `"yes eu-central-1 ledger"` {
		t.Errorf("%s, %v; want the variables without those of idemsk", got, err)
	}
	if _, err := call(t, p, "print"); err != nil || !strings.Contains(out.String(), "printed\n") ||
		!strings.Contains(out.String(), "complained\n") {
		t.Errorf("%q, %v; want what the function prints", out, err)
	}
	if p.Starts() != 1 {
		t.Errorf("%d processes were started, want 1", p.Starts())
	}
	if _, err := call(t, p, "large"); !idem.IsOutcomeUnknown(err) {
		t.Errorf("an answer that is too large: %v; want an unknown outcome", err)
	}
}

// Calls run at once in as many processes as there are. A call that finds none is given up with its context.
func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	p, _ := start(t, 2, "on", "MEET="+t.TempDir())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if _, err := call(t, p, "meet"); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	for range 2 {
		calls.Go(func() { _, _ = call(t, p, "hang") })
	}
	defer calls.Wait()
	<-time.After(100 * time.Millisecond) // whether they have their processes, or this call gets one and answers
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Call(ctx, []byte(`{"do":"hang"}`)); !idem.IsUnavailable(err) {
		t.Errorf("%v; want unavailable, as all processes are busy", err)
	}
}

// A function that does not start is an error of the start. One that does not start again did not get the
// event: no attempt is counted.
func TestFunctionThatDoesNotStart(t *testing.T) {
	t.Parallel()
	cfg := config(t, 2, "on", new(output))
	cfg.Command = []string{"/bin/false"}
	if _, err := childcall.Start(t.Context(), cfg); err == nil ||
		!strings.Contains(err.Error(), "it ended before it asked for work") {
		t.Errorf("%v; want the error of the start", err)
	}
	p, _ := start(t, 1, "once", "STARTED="+t.TempDir()+"/started")
	if _, err := call(t, p, "die"); err == nil || idem.IsUnavailable(err) {
		t.Errorf("%v; want a failure", err)
	}
	for range 2 {
		if _, err := call(t, p, ""); !idem.IsUnavailable(err) || idem.IsOutcomeUnknown(err) {
			t.Errorf("%v; want unavailable", err)
		}
	}
}

// A call that no process took had no effect, whatever prevented it.
func TestCallsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	for name, not := range map[string]func(t *testing.T) error{
		"given up before": func(t *testing.T) error {
			p, _ := start(t, 1, "on")
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := p.Call(ctx, []byte("{}"))
			return err
		},
		"given up while a process starts": func(t *testing.T) error {
			folder := t.TempDir()
			p, _ := start(t, 1, "once, then slow", "STARTED="+folder+"/started")
			_, _ = call(t, p, "die")
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := p.Call(ctx, []byte("{}"))
			return err
		},
		"the processes are closed": func(t *testing.T) error {
			p, _ := start(t, 1, "on")
			p.Close(t.Context())
			_, err := call(t, p, "")
			return err
		},
		"the process does not start again": func(t *testing.T) error {
			p, _ := start(t, 1, "once", "STARTED="+t.TempDir()+"/started")
			_, _ = call(t, p, "die")
			_, err := call(t, p, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := not(t); !idem.IsUnavailable(err) || idem.IsOutcomeUnknown(err) {
				t.Errorf("%v; want unavailable", err)
			}
		})
	}
}

// What a function prints goes to its log alone, and into no error: errors are logged, and stored in entries and
// dead letters.
func TestErrorsHaveNoOutput(t *testing.T) {
	t.Parallel()
	const printed = "customer alice@example.com"
	p, out := start(t, 1, "once", "STARTED="+t.TempDir()+"/started")
	hanging, out2 := start(t, 1, "on")
	never := new(output)
	cfg := config(t, 1, "on", never)
	cfg.Command = []string{"/bin/sh", "-c", "printf 'customer ali'; printf 'ce@example.com\\n'; exit 3"}
	for name, of := range map[string]struct {
		err func() error
		out *output
	}{
		"it dies in a call, and does not start again": {func() error {
			_, crash := call(t, p, "print and die")
			_, again := call(t, p, "")
			return errors.Join(crash, again)
		}, out},
		"it does not answer": {func() error { _, err := call(t, hanging, "print and hang"); return err }, out2},
		"it never starts":    {func() error { _, err := childcall.Start(t.Context(), cfg); return err }, never},
	} {
		if err := of.err(); err == nil || strings.Contains(err.Error(), "alice") ||
			!strings.Contains(of.out.String(), printed) {
			t.Errorf("%s: %v, and the function's log %q; want the lines in the log alone", name, err, of.out)
		}
	}
}
