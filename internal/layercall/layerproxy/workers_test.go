package layerproxy_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// busyMachine leaves more than a second between the end of an invocation by the layer, and its time-out.
const busyMachine = "IDEMSK_DEADLINE_MARGIN=10s"

// workers is newFixture for a runtime with n workers: on Lambda Managed Instances it gets n invocations at
// once.
func workers(t testing.TB, n int, mode string, env ...string) *fixture {
	f := newFixture(t, mode, env...)
	f.config.Concurrency = n
	function, err := runtimeapi.Start(t.Context(), f.config)
	if err != nil {
		t.Fatal(err)
	}
	f.function = function
	return f
}

// together delivers payloads at once, and returns the errors of those whose answer is not as expected.
func (f *fixture) together(want func(i int) string, payloads ...[]byte) []error {
	errs := make([]error, len(payloads))
	var all sync.WaitGroup
	for i, payload := range payloads {
		all.Go(func() {
			got, err := f.deliver(payload)
			if err == nil && got != want(i) {
				err = fmt.Errorf("payload %d: answer %s, want %s", i, got, want(i))
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errs
}

func completed(int) string { return complete }

// Each key runs once, however many deliveries of it there are at once, and the other events get their own
// answers.
func TestWorkersRunEachKeyOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{inThreads, inProcesses} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := workers(t, 4, mode)
			var payloads [][]byte
			const rounds, keys = 12, 8
			for round := range rounds {
				var records []string
				for i := range keys {
					records = append(records, fmt.Sprintf("k%d", round/3*4+i)) // half of them are those of the next batch
				}
				payloads = append(payloads, event(records...), fmt.Appendf(nil, `{"plain":%d}`, round))
			}
			want := func(i int) string {
				if i%2 == 1 {
					return string(payloads[i])
				}
				return complete
			}
			for _, err := range f.together(want, payloads...) {
				if err != nil {
					t.Error(err)
				}
			}
			ran := make(map[string]int)
			for _, e := range f.received() {
				for _, r := range e.records {
					ran[r.key]++
				}
			}
			for i := range (rounds/3-1)*4 + keys {
				key := fmt.Sprintf("k%d", i)
				f.wantStatus(store.StatusCompleted, key)
				if ran[key] != 1 {
					t.Errorf("%s ran %d times", key, ran[key])
				}
			}
			if starts := f.function.Starts(); starts != 1 {
				t.Errorf("%d starts", starts)
			}
		})
	}
}

// Two invocations are with the function at the same time.
func TestWorkersWorkAtOnce(t *testing.T) {
	t.Parallel()
	f := workers(t, 2, inThreads)
	for _, err := range f.together(completed, event("a:meet"), event("b:meet")) {
		if err != nil {
			t.Error(err)
		}
	}
}

// An invocation for which there is no worker yet, because some have not started, stays with Lambda.
func TestInvocationsWaitForWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", busyMachine) // one worker, of four
	f.config.Concurrency = 4
	f.config.Timeout = 15 * time.Second
	called := make(chan struct{}, 10)
	f.config.Stdout = func(line []byte) {
		if string(line) == "called" {
			called <- struct{}{}
		}
	}
	f.answers(event("first"), complete)
	<-called
	failed := make(chan error, 1)
	go func() {
		_, err := f.deliver(event("a:hang"))
		failed <- err
	}()
	<-called
	for _, err := range f.together(completed, event("b"), event("c"), event("d")) { // by the next process
		if err != nil {
			t.Error(err)
		}
	}
	var e *runtimeapi.FunctionError
	if err := <-failed; !errors.As(err, &e) || e.Type != "Overrun" {
		t.Errorf("error %v", err)
	}
}

// A worker that dies in a call, or does not answer it, fails its invocation before the time-out. The others
// go on until then. Those that have begun get their answers, and the process ends: the next one runs the
// keys.
func TestWorkerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for do, mode := range map[string]string{"exit": inProcesses, "hang": inThreads} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, mode, busyMachine)
			f.config.Concurrency = 4
			f.config.Timeout = 15 * time.Second
			f.answers(event("first"), complete)
			fifo := f.events + ".fifo"
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			failed := make(chan error, 1)
			begun := time.Now()
			go func() {
				_, err := f.deliver(event("a:" + do))
				failed <- err
			}()
			others := 0
			for time.Since(begun) < 3*time.Second {
				f.answers(event(fmt.Sprint("other", others)), complete)
				others++
			}
			ended := make(chan error, 1)
			go func() {
				answer, err := f.deliver(event("b:wait"))
				if err == nil && answer != complete {
					err = errors.New(answer)
				}
				ended <- err
			}()
			var e *runtimeapi.FunctionError
			if err := <-failed; !errors.As(err, &e) || e.Type != "Overrun" ||
				!strings.Contains(e.Message, "payments-3@0") {
				t.Errorf("error %v", err)
			}
			if err := os.WriteFile(fifo, []byte("go on"), 0o600); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the invocation that had begun: %v", err)
			}
			f.wantStatus(store.StatusStarted, "a")
			f.wantStatus(store.StatusCompleted, "b", "other0", fmt.Sprint("other", others-1))
			for n := 0; f.function.Starts() == 1; n++ { // the process may take some more before it ends
				_, _ = f.deliver(event(fmt.Sprint("last", n)))
			}
			f.answers(event("other0", "b", "c"), complete)
		})
	}
}

// When the runtime ends, what its workers have answered is settled, and the calls that it has not answered have failed:
// each costs its record an attempt. A record that no worker has taken before the end is delivered again.
func TestRuntimeThatEndsInSeveralCalls(t *testing.T) {
	t.Parallel()
	f := workers(t, 3, inThreads, shortLease)
	f.answers(event("before"), complete)
	for i, err := range f.together(completed, event("a:meet and hang"), event("b:meet and exit"), event("c")) {
		var failed *runtimeapi.FunctionError
		if i < 2 && (!errors.As(err, &failed) || failed.Type != "BatchError" ||
			!strings.Contains(failed.Message, "the function's process ended in the call")) {
			t.Errorf("payload %d: %v", i, err)
		}
	}
	f.wantStatus(store.StatusStarted, "a", "b")
	f.answers(event("a"), complete)
	f.answers(event("b"), complete)
	f.answers(event("c"), complete)
	f.wantStatus(store.StatusCompleted, "a", "b", "c", "before")
}
