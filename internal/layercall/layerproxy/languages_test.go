//go:build rest

package layerproxy_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// AWS's client for Python has a process for each invocation that there may be at once. They book each
// payment once. When one of them dies in a call, its invocation fails at its time-out, and the others go on
// until then.
func TestWorkersOfAWSsClientForPython(t *testing.T) {
	out, err := exec.Command("../../../scripts/runtimes.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	bookings := filepath.Join(t.TempDir(), "bookings")
	f := newFixture(t, "", busyMachine, "PYTHONDONTWRITEBYTECODE=1", "BOOKINGS="+bookings)
	f.config.Command = append(f.config.Command[:2],
		filepath.Join(strings.TrimSpace(string(out)), "python/bin/python"), "-m", "awslambdaric", "app.handler")
	f.config.Dir, f.config.Handler = "testdata", "app.handler"
	f.config.Concurrency, f.config.Timeout = 4, 25*time.Second
	var payloads [][]byte
	for i := range 12 {
		payloads = append(payloads, event(fmt.Sprint("a", i/2), fmt.Sprint("b", i/2)))
	}
	f.answers(event("first"), complete)
	for _, err := range f.together(completed, payloads...) {
		if err != nil {
			t.Error(err)
		}
	}
	failed := make(chan error, 1)
	go func() {
		_, err := f.deliver(event("c:die"))
		failed <- err
	}()
	others := 0
	for ; len(failed) == 0; others++ {
		_, err := f.deliver(event(fmt.Sprint("other", others)))
		if err != nil && others == 0 {
			t.Error(err)
		}
	}
	var e *runtimeapi.FunctionError
	if err := <-failed; !errors.As(err, &e) || e.Type != "Overrun" {
		t.Errorf("error %v", err)
	}
	f.wantStatus(store.StatusCompleted, "other0", fmt.Sprint("other", others/2))
	for f.function.Starts() == 1 { // the process may take some more before it ends
		_, _ = f.deliver(event("last"))
	}
	f.answers(event("first", "a0", "b5", "other0"), complete)
	got, err := os.ReadFile(bookings)
	if err != nil {
		t.Fatal(err)
	}
	booked := make(map[string]int)
	for _, key := range strings.Fields(string(got)) {
		booked[key]++
	}
	for i := range 6 {
		if booked[fmt.Sprint("a", i)] != 1 || booked[fmt.Sprint("b", i)] != 1 {
			t.Errorf("bookings %v", booked)
		}
	}
	if booked["first"] != 1 || booked["c"] != 1 || booked["other0"] != 1 {
		t.Errorf("bookings of first %d, c %d, other0 %d", booked["first"], booked["c"], booked["other0"])
	}
}

// Unmodified functions on AWS's own runtime interface clients, which scripts/runtimes.sh installs, book each
// payment once behind the layer, and twice without it. The classes of their errors decide, as the clients
// report them.
func TestFunctionsInOtherLanguages(t *testing.T) {
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("%s %v: %v: %s", name, args, err, exit.Stderr)
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	installed := run("../../../scripts/runtimes.sh", "java")
	testdata, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	classes := t.TempDir()
	run("javac", "-d", classes, filepath.Join(testdata, "App.java"))
	for name, lang := range map[string]struct {
		command []string
		raised  string
	}{
		"Python": {[]string{filepath.Join(installed, "python/bin/python"), "-m", "awslambdaric",
			"app.handler"}, "ValueError"},
		"Node": {[]string{"node", filepath.Join(installed,
			"node/node_modules/aws-lambda-ric/bin/index.mjs"), "app.handler"}, "RangeError"},
		"Java": {
			[]string{"java", "-cp", classes + ":" + filepath.Join(installed, "java/*"),
				"com.amazonaws.services.lambda.runtime.api.client.AWSLambda", "App::handler"},
			"IllegalArgumentException",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bookings := filepath.Join(t.TempDir(), "bookings")
			f := newFixture(t, "", shortLease, "PYTHONDONTWRITEBYTECODE=1", "BOOKINGS="+bookings)
			f.config.Command, f.config.Dir, f.config.Handler = append(f.config.Command[:2],
				lang.command...), testdata, lang.command[len(lang.command)-1]
			wantBookings := func(want string) {
				t.Helper()
				got, err := os.ReadFile(bookings)
				if err != nil || strings.Join(strings.Fields(string(got)), " ") != want {
					t.Errorf("bookings %q, %v; want %s", got, err, want)
				}
			}
			f.answers(event("a", "b", "a"), complete)
			f.answers(event("b", "c"), complete)
			wantBookings("a b c")
			if e := fails[*runtimeapi.FunctionError](f, event("d:raise")); !strings.Contains(e.Message,
				lang.raised) || !strings.Contains(e.Message, "no such account") {
				t.Errorf("error %s: %s", e.Type, e.Message)
			}
			f.answers(event("d"), complete)
			if e := fails[*runtimeapi.FunctionError](f, event("e:die")); !strings.Contains(e.Message,
				"the function's process ended in the call") {
				t.Errorf("error %s: %s", e.Type, e.Message)
			}
			f.answers(event("e"), complete)
			wantBookings("a b c d d e e") // an error and a crash after the effect repeat it

			f.answers(event("f:closed"), complete)
			f.wantStatus(store.StatusFailed, "f")
			if e := f.entry("f"); e.Attempts != 1 || e.Failure.Code != store.CodePermanent ||
				!strings.HasSuffix(e.Failure.Message, ": the account is closed") {
				t.Errorf("the entry of a permanent error is %+v", e)
			}
			fails[*runtimeapi.FunctionError](f, event("g", "h:down"))
			f.wantStatus(store.StatusCompleted, "g")
			f.wantOutage("the bank is down", "h")
			wantBookings("a b c d d e e f g h")
			f.stop()

			f.function = nil
			f.config.Command = f.config.Command[2:]
			for range 2 {
				if _, err := f.deliver(event("x")); err != nil {
					t.Fatal(err)
				}
			}
			wantBookings("a b c d d e e f g h x x")
		})
	}
}
