package runtimeapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// managed is config for a function whose processes handle n invocations at once.
func managed(t testing.TB, n int) runtimeapi.Config {
	cfg := config(t, "lambda")
	cfg.Concurrency = n
	return cfg
}

// together invokes the function with n events at once, and returns the errors.
func together(f *runtimeapi.Function, n int, event func(i int) string) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			result, err := f.Invoke(context.Background(), []byte(event(i)))
			if want := fmt.Sprintf("%q", fmt.Sprint(i)); err == nil && string(result.Payload) != want {
				err = fmt.Errorf("the answer is %s, want %s", result.Payload, want)
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errs
}

// pair is an event whose invocation waits for another one.
func pair(i int) string { return fmt.Sprintf(`{"do":"meet","count":2,"text":"%d"}`, i) }

// A process of a real Go function has as many invocations at once as it may have, and each gets its answer.
// Further ones wait.
func TestInvocationsOfOneProcessAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t, managed(t, 2))
	for _, err := range together(f, 40, pair) {
		if err != nil {
			t.Error(err)
		}
	}
	env := string(invoke(t, f, `{"do":"environment"}`).Payload)
	for _, want := range []string{"AWS_LAMBDA_MAX_CONCURRENCY=2",
		"AWS_LAMBDA_INITIALIZATION_TYPE=lambda-managed-instances"} {
		if !strings.Contains(env, `"`+want+`"`) {
			t.Errorf("the environment has no %s: %s", want, env)
		}
	}
	wantStarts(t, f, 1)
}

// An invocation that exceeds the timeout, or whose context ends, fails alone: the process goes on.
func TestTimeoutOfOneOfSeveralInvocations(t *testing.T) {
	t.Parallel()
	cfg := managed(t, 3)
	cfg.Timeout = time.Second
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	cfg.Stdout = func([]byte) { cancel(enough) }
	f := start(t, cfg)
	if _, err := f.Invoke(ctx, []byte(`{"do":"hang"}`)); !errors.Is(err, enough) ||
		strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v, want %v", err, enough)
	}
	if e := fails[*runtimeapi.TimeoutError](t, f, `{"do":"hang"}`); e.Killed ||
		strings.Contains(e.Error(), "killed") {
		t.Errorf("error %v", e)
	}
	invoke(t, f, `{"do":"echo"}`)
	fails[*runtimeapi.TimeoutError](t, f, `{"do":"hang"}`)
	fails[*runtimeapi.TimeoutError](t, f, `{"do":"echo"}`) // no loop asks for work any more
	wantStarts(t, f, 1)
	f.Kill()
	invoke(t, f, `{"do":"echo"}`)
	wantStarts(t, f, 2)
}

// The end of a process fails all of its invocations, and one process takes its place.
func TestCrashOfSeveralInvocations(t *testing.T) {
	t.Parallel()
	f := start(t, managed(t, 8))
	for i, err := range together(f, 8, func(int) string { return `{"do":"meet and exit","count":8}` }) {
		var crash *runtimeapi.CrashError
		if !errors.As(err, &crash) || crash.ExitCode != 3 {
			t.Errorf("invocation %d: error %v", i, err)
		}
	}
	for _, err := range together(f, 8, pair) {
		if err != nil {
			t.Error(err)
		}
	}
	wantStarts(t, f, 2)
}
