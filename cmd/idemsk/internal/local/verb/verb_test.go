package verb_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

// --prove with kills and duplicates, and --compare.
func TestLocalVerifiesTheLedger(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "function.log")
	r := clitest.Run(t, "local", "--function", handler, "--produce", "2000", "--pollers", "3", "--batch-size", "50",
		"--seed", "3", "--until-drained", "--prove", "--compare",
		"--function-response-types", "ReportBatchItemFailures", "--producer-duplicates", "0.2",
		"--duplicate", "0.3", "--kill", "0.1", "--concurrent-duplicates", "0.3", "--log", log)
	if r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{
		"with idemsk", "ledger: must be", "The same without idemsk", "2,000 records, delivered ",
		"Dead letters:", "and nothing is lost; without idemsk the ledger\nwould be off by ",
		"finished batches delivered again", "made twice at once", "executed", "replayed", "killed",
	} {
		if !strings.Contains(squeezed(r.Out+r.Err), squeezed(want)) {
			t.Errorf("the output does not contain %q:\n%s", want, r.Out)
		}
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), `"msg":"batch"`) {
		t.Errorf("the function's log: %v", err)
	}
}

// The function gets recorded events, also without idemsk, and the answers are shown.
func TestLocalDeliversEvents(t *testing.T) {
	t.Parallel()
	r := clitest.Run(t, "local", "--function", handler,
		"--events", filepath.Join("..", "..", "..", "..", "..", "events", "duplicate-across-batches-1.json"),
		"--duplicate", "1", "--prove", "--compare")
	if r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for _, want := range []string{
		"duplicate-across-batches-1.json: 2 records, answered ",
		"2 records, delivered 4 times, booked 2 payments exactly once each",
		"without idemsk the ledger would be off by ",
	} {
		if !strings.Contains(squeezed(r.Out+r.Err), squeezed(want)) {
			t.Errorf("the output does not contain %q:\n%s\n%s", want, r.Out, r.Err)
		}
	}
}

// The function gets the messages of a queue, with faults, and the ledger is that of the payments sent to it.
func TestLocalDeliversMessages(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{"payments", "payments.fifo"} {
		r := clitest.Run(t, "local", "--function", handler, "--sqs", queue, "--produce", "500", "--seed", "3",
			"--function-response-types", "ReportBatchItemFailures", "--visibility-timeout", "1s",
			"--duplicate", "0.3", "--kill", "0.2", "--env", "IDEMSK_LEASE=500ms", "--until-drained", "--prove",
			"--log", filepath.Join(t.TempDir(), "function.log"))
		if r.Code != 0 {
			t.Fatalf("%+v", r)
		}
		for _, want := range []string{
			"Produced 500 records to " + queue, "queue " + queue + ": 500 messages deleted, 0 left, 0 in flight",
			"finished batches delivered again", "killed", "the queue is empty after", "500 records, delivered ",
			"exactly once each",
		} {
			if !strings.Contains(squeezed(r.Out+r.Err), squeezed(want)) {
				t.Errorf("the output does not contain %q:\n%s\n%s", want, r.Out, r.Err)
			}
		}
		if strings.Contains(r.Out, "redriven or discarded") {
			t.Errorf("the deletions of the queue are counted as those of dead letters:\n%s", r.Out)
		}
	}
}

// squeezed replaces each run of blanks and line ends by one blank.
func squeezed(text string) string { return strings.Join(strings.Fields(text), " ") }

// --prove fails without idemsk, because the ledger is wrong.
func TestLocalFailsIfTheLedgerIsWrong(t *testing.T) {
	t.Parallel()
	r := clitest.Run(t, "local", "--function", handler, "--produce", "300", "--until-drained", "--prove",
		"--duplicate", "1", "--env", "IDEMSK_STORE=none",
		"--log", filepath.Join(t.TempDir(), "function.log"))
	if r.Code != 1 || !strings.Contains(r.Out, "Not proven: ") ||
		!strings.Contains(r.Out, "the ledger is wrong: account-") {
		t.Errorf("%+v", r)
	}
}

// Records that are given up without a destination are reported as lost, and the exit status is 1.
func TestLocalReportsLostRecords(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "function.log")
	args := []string{"local", "--function", handler, "--produce", "2000", "--seed", "3", "--until-drained",
		"--maximum-retry-attempts", "0", "--log", log}
	r := clitest.Run(t, args...)
	for _, want := range []string{" lost: given up, no on-failure destination\n", "\nlast error: payments-",
		"everything is committed after"} {
		if r.Code != 1 || !strings.Contains(r.Out, want) {
			t.Errorf("exit %d; want 1, and %q in\n%s", r.Code, want, r.Out)
		}
	}
	if strings.Contains(r.Out, "2,000 done") ||
		!strings.Contains(r.Err, "The function's log is in "+log+"; it ends with:") {
		t.Errorf("%+v", r)
	}
	if r = clitest.Run(t, append(args,
		"--on-failure", "arn:aws:sqs:us-east-1:000000000000:gave-up")...); r.Code != 0 ||
		strings.Contains(r.Out, "lost") {
		t.Errorf("with a destination nothing is lost: %+v", r)
	}
}

// A temporary log is kept and named if an invocation failed.
func TestLocalKeepsTheLogOfAFailure(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := map[string]time.Duration{"idemsk-local-1.log": 25 * time.Hour,
		"idemsk-local-2.log": 23 * time.Hour, "other.log": 25 * time.Hour}
	for name, age := range before {
		path := filepath.Join(tmp, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600),
			os.Chtimes(path, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	r := clitest.Run(t, "local", "--function", handler, "--produce", "2000", "--seed", "3", "--until-drained")
	for name := range before {
		if _, err := os.Stat(filepath.Join(tmp, name)); (err == nil) == (name == "idemsk-local-1.log") {
			t.Errorf("%s: %v; want the log of a day ago removed, and nothing else", name, err)
		}
	}
	named := regexp.MustCompile(`\d+ invocations? failed by (?:itself|themselves): the function's log is in (\S+)\.\n$`).FindStringSubmatch(r.Err)
	if r.Code != 0 || named == nil {
		t.Fatalf("%+v", r)
	}
	if !regexp.MustCompile(`\nDead letters:\n  payments-\d@\d+  permanent  simulated failure\n`).MatchString(
		r.Out) {
		t.Errorf("the dead letters are not shown:\n%s", r.Out)
	}
	if text, err := os.ReadFile(named[1]); err != nil || !strings.Contains(string(text), `"msg":"batch"`) {
		t.Errorf("the function's log: %v", err)
	}
}

// What a function printed before it failed to start is shown once: in the error. A misspelt variable is named
// on the console.
func TestLocalShowsTheOutputOfAFunctionOnce(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "function.log")
	for host, times := range map[string]int{"lambda": 2, "process": 1} { // one error also shows the command
		r := clitest.Run(t, "local", "--function", "sh -c 'echo why it failed; exit 3'", "--host", host,
			"--produce", "1", "--until-drained", "--log", log)
		if r.Code != 1 || strings.Count(r.Err, "why it failed") != times ||
			!strings.Contains(r.Err, "The function's log is in "+log+"; the error shows its end.") {
			t.Errorf("%s: %+v; want the output once", host, r)
		}
	}
	r := clitest.Run(t, "local", "--function", handler, "--produce", "20", "--until-drained", "--log", log,
		"--env", "IDEMSK_LAESE=1s")
	const want = "WARNING: IDEMSK_LAESE is set, but the configuration does not read it: is the name " +
		"misspelt? Perhaps IDEMSK_LEASE is meant.\n"
	if r.Code != 0 || strings.Count(r.Err, want) != 1 || strings.Count(r.Err, "WARNING") != 1 {
		t.Errorf("%+v; want one warning, %q", r, want)
	}
}

// A variable that is exported and not passed on is named. A command line that is not valid begins nothing.
func TestLocalNamesVariablesThatAreNotPassed(t *testing.T) {
	t.Setenv("IDEMSK_LEASE", "1s")
	t.Setenv("IDEMSK_MAX_ATTEMPTS", "3")
	run := []string{"local", "--function", handler, "--produce", "1", "--until-drained", "--env", "IDEMSK_MAX_ATTEMPTS"}
	const want = "IDEMSK_LEASE is set here, but the function does not get it: pass it with --env IDEMSK_LEASE\n"
	if r := clitest.Run(t, run...); r.Code != 0 || !strings.Contains(r.Err, want) ||
		strings.Count(r.Err, "is set here") != 1 {
		t.Errorf("%+v; want %q", r, want)
	}
	if r := clitest.Run(t, append(run, "--batch-size", "0")...); r.Code != 2 || strings.Count(r.Err, "\n") != 1 {
		t.Errorf("%+v; want one line", r)
	}
}

// A run in which each record becomes a dead letter says so, with the cause, and fails if it is to. What the
// records ask for is no failure.
func TestLocalFailsOnDeadLetters(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	misspelt := []string{"local", "--function", handler, "--produce", "50", "--seed", "3", "--until-drained",
		"--env", "IDEMSK_KEY=header:idempotency-kee"}
	for code, flags := range map[int][]string{0: {"--prove", "--fail-on-dead-letters=false"},
		1: {"--prove"}} {
		r := clitest.Run(t, append(misspelt, flags...)...)
		for _, want := range []string{"0 records completed, 50 dead letters",
			`is it in "idempotency-key"?`, "and 49 more for this reason"} {
			if r.Code != code || !strings.Contains(squeezed(r.Out), want) {
				t.Errorf("%v: exit %d, want %d and %q in\n%s\n%s", flags, r.Code, code, want, r.Out, r.Err)
			}
		}
		if code == 1 != strings.Contains(r.Err,
			"50 unexpected dead letters: the run has failed (--fail-on-dead-letters).") {
			t.Errorf("%v: %s", flags, r.Err)
		}
	}
	r := clitest.Run(t, "local", "--function", handler, "--produce", "2000", "--seed", "3", "--until-drained",
		"--fail-on-dead-letters")
	if r.Code != 0 || !strings.Contains(r.Out, "1,965 records completed, 33 with the key of another, 2 dead letters\n") {
		t.Errorf("%+v", r)
	}
	file := regexp.MustCompile(`to show them: idemsk redrive --dry-run --file (\S+)\n`).FindStringSubmatch(
		r.Err)
	if file == nil {
		t.Fatal(r.Err)
	}
	if r = clitest.Run(t, "redrive", "--dry-run", "--file", file[1]); r.Code != 0 ||
		strings.Count(r.Out, "permanent: simulated failure") != 2 {
		t.Errorf("%+v", r)
	}
	if r = clitest.Run(t, "redrive", "--yes", "--file", file[1]); r.Code != 1 ||
		!strings.Contains(r.Err, "it is a record of the topic payments: give --brokers") {
		t.Errorf("%+v", r)
	}
}

// --env NAME passes a variable on, so that secrets are not on the command line.
func TestLocalPassesAVariableOn(t *testing.T) {
	t.Setenv("IDEMSK_STORE", "nonsense from the shell")
	t.Setenv("TMPDIR", t.TempDir()) // the log of the failure stays
	r := clitest.Run(t, "local", "--function", handler, "--env", "IDEMSK_STORE")
	if r.Code != 1 || !strings.Contains(r.Err, "nonsense from the shell") {
		t.Errorf("%+v; want the function to refuse the value", r)
	}
}

func TestLocalThatCannotStart(t *testing.T) {
	t.Parallel()
	notExecutable := filepath.Join(t.TempDir(), "bootstrap")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--brokers", closed}, 1, "no Kafka broker answers at " + closed},
		{[]string{"--function", "./nowhere"}, 1, "there is no file"},
		{[]string{"--function", notExecutable}, 1, "is not executable"},
		{[]string{"--function", "/bin/sh -c 'exit 3'"}, 1,
			"it ended before it asked for work: exit status 3"},
		{[]string{"--function", "", "--invoke", "http://" + closed}, 1, "no Lambda endpoint answers"},
		{[]string{"--batch-size", "0"}, 2, "--batch-size is 0"},
		{[]string{"--function", "", "--layer"}, 2, "--layer needs --function"},
		{[]string{"--function", "true", "--layer", "--store", "none"}, 2,
			"--layer needs --function with the command of a function, and a --store"},
		{[]string{"--topic", "bad topic"}, 2, `the topic is "bad topic"`},
		{[]string{"--init-timeout", "1us"}, 1, "raise the initialization timeout (--init-timeout)"},
		{[]string{"--filter-criteria", "@/nowhere"}, 1, "/nowhere"},
		{[]string{"--filter-criteria", "x"}, 2, "--filter-criteria"},
		{[]string{"--starting-position-timestamp", "now"}, 2, "starting-position-timestamp"},
		{[]string{"--maximum-record-age", "1"}, 2, "--maximum-record-age is 1s"},
		{[]string{"--maximum-batching-window", "301"}, 2, "--maximum-batching-window is 5m1s"},
		{[]string{"--maximum-batching-window", "soon"}, 2, `"soon"`},
		{[]string{"--env", "IDEMSK_NOWHERE_SET"}, 2, `--env "IDEMSK_NOWHERE_SET" is neither`},
		{[]string{"x"}, 2, `"x"`},
		{[]string{"--fail-on-dead-letters", "--store", "none"}, 2,
			"--fail-on-dead-letters needs --function, and a --store"},
		{[]string{"--compare"}, 2, "--compare needs --prove"},
		{[]string{"--prove"}, 2, "--prove needs --until-drained"},
		{[]string{"--function", "python3 -m awslambdaric app.handler", "--prove", "--until-drained"}, 2,
			"can't read the effects of \"python3 -m awslambdaric"},
		{[]string{"--store", "x"}, 2, `idemsk local: --store is "x"`},
		{[]string{"--store", "http://" + closed}, 1, "no DynamoDB answers at http://" + closed},
		{[]string{"--tls"}, 2, "need --brokers"},
		{[]string{"--brokers", closed, "--tls-ca", "/nowhere"}, 2, "/nowhere"},
		{[]string{"--from-localstack"}, 2, "--function and --from-localstack exclude each other"},
	} {
		args := append([]string{"local", "--function", handler}, test.args...)
		r := clitest.Run(t, args...)
		if r.Code != test.code || r.Out != "" || !strings.Contains(r.Err, test.says) {
			t.Errorf("%v: %+v; want exit %d and %q", test.args, r, test.code, test.says)
		}
		if kept := regexp.MustCompile(`The function's log is in (\S+);`).FindStringSubmatch(
			r.Err); kept != nil {
			_ = os.Remove(kept[1])
		}
	}
}

// tape records the output of a run. wait waits for a text.
type tape struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (b *tape) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *tape) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *tape) wait(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(b.String(), text) {
		select {
		case <-b.more:
		case <-ctx.Done():
			t.Fatalf("the output does not contain %q:\n%s", text, b)
		}
	}
}

// SIGUSR1 disables and enables the mapping. Ctrl-C ends the run with status 0 and the closing table, and
// removes the temporary log.
func TestLocalSignals(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test took too long"))
	defer cancel()
	ctrlC, interrupt := context.WithCancel(ctx)
	var out bytes.Buffer
	said := &tape{more: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(ctrlC, []string{"local", "--function", handler, "--produce", "100",
			"--function-response-types", "ReportBatchItemFailures"}, cli.Streams{Out: &out, Err: said}, "v1")
	}()
	said.wait(ctx, t, "Produced 100 records")
	for _, want := range []string{"is disabled", "is enabled again"} {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		said.wait(ctx, t, want)
	}
	interrupt()
	if c := <-code; c != 0 || !strings.Contains(out.String(), "partition  poller") {
		t.Errorf("exit %d\n%s\n%s", c, out.String(), said)
	}
	if left, err := filepath.Glob(filepath.Join(tmp, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A second Ctrl-C aborts the running invocations.
func TestLocalSecondInterrupt(t *testing.T) {
	swallow := make(chan os.Signal, 1) // the tool may not be listening for the first signals yet
	signal.Notify(swallow, os.Interrupt)
	defer signal.Stop(swallow)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the test took too long"))
	defer cancel()
	ctrlC, interrupt := context.WithCancel(ctx)
	var out bytes.Buffer
	said := &tape{more: make(chan struct{}, 1)}
	code := make(chan int, 1)
	go func() {
		code <- cli.Main(ctrlC, []string{"local", "--function", handler, "--produce", "100",
			"--partitions", "1", "--seed", "3", "--timeout", "10m", "--slow", "24h"},
			cli.Streams{Out: &out, Err: said}, "v1")
	}()
	said.wait(ctx, t, "100 in flight")
	interrupt()
	said.wait(ctx, t, "Waiting for the function to be done with 100 records, for 10m0s at most (its "+
		"timeout); Ctrl-C again aborts it.")
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		select {
		case <-tick.C:
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			continue
		case c := <-code:
			if c != 0 || !strings.Contains(out.String(), "100 records are not committed") ||
				!strings.Contains(said.String(), "the next run redelivers them") {
				t.Errorf("exit %d\n%s\n%s", c, out.String(), said)
			}
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
		tick.Stop()
		return
	}
}

// A run that ends by itself has a page only if --ui asks for it.
func TestLocalServesAPage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ui   []string
		says bool
	}{{nil, false}, {[]string{"--ui", "off"}, false}, {[]string{"--ui", "127.0.0.1:0"}, true}} {
		r := clitest.Run(t, append([]string{"local", "--function", handler, "--produce", "10",
			"--until-drained"}, test.ui...)...)
		if r.Code != 0 || strings.Contains(r.Err, "Page: http://127.0.0.1:") != test.says {
			t.Errorf("%q: %+v", test.ui, r)
		}
	}
	r := clitest.Run(t, "local", "--function", handler, "--produce", "10", "--until-drained",
		"--ui", "0.0.0.0:0")
	if r.Code != 1 || !strings.Contains(squeezed(r.Err), squeezed("set a password in IDEMSK_UI_PASSWORD")) {
		t.Errorf("%+v", r)
	}
}
