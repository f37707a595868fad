package runtimeapi_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// modeVariable makes the test binary run as a function of the tests; its value names the function.
const modeVariable = "RUNTIMEAPI_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		runChild(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

// config runs this test binary as the function of that mode.
func config(t testing.TB, mode string) runtimeapi.Config {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return runtimeapi.Config{
		Command: []string{program},
		// or a child of go test -cover complains
		Env:         []string{modeVariable + "=" + mode, "GOCOVERDIR=" + t.TempDir()},
		Name:        "payments",
		Timeout:     time.Minute, // far off, where a test is not about it
		InitTimeout: time.Minute,
	}
}

func start(t testing.TB, cfg runtimeapi.Config) *runtimeapi.Function {
	t.Helper()
	f, err := runtimeapi.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

func invoke(t testing.TB, f *runtimeapi.Function, event string) runtimeapi.Result {
	t.Helper()
	result, err := f.Invoke(context.Background(), []byte(event))
	if err != nil {
		t.Fatalf("Invoke(%.100s): %v", event, err)
	}
	return result
}

// fails invokes the function and returns the error, which must be of type E.
func fails[E error](t testing.TB, f *runtimeapi.Function, event string) E {
	t.Helper()
	result, err := f.Invoke(context.Background(), []byte(event))
	var e E
	if !errors.As(err, &e) {
		t.Fatalf("Invoke(%.100s) = %.100s, error %T %v; want an error of type %T", event, result.Payload, err,
			err, e)
	}
	return e
}

func wantStarts(t testing.TB, f *runtimeapi.Function, want int) {
	t.Helper()
	if got := f.Starts(); got != want {
		t.Errorf("Starts() = %d, want %d", got, want)
	}
}

// lines collects what a function prints.
type lines struct {
	mu   sync.Mutex
	list []string
}

func (l *lines) add(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, string(line))
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}
