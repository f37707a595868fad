package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// A broker that is left open is a leaked goroutine, which TestMain finds. Its port can be another's at once.
func TestRun(t *testing.T) {
	t.Parallel()
	o, s := options(t, "metrics")
	o.Produce, o.ESM.Pollers = 500, 2
	report := mustRun(t, o)
	if report.Done != 500 || report.Lag() != 0 || report.Delivered != 500 || report.Failed != 0 ||
		report.First == 0 || report.First > report.Took {
		t.Errorf("%+v", report)
	}
	if report.Outcomes.Executed != 2*report.Invocations || report.Reports != report.Invocations {
		t.Errorf("the function's metrics are not counted: %+v", report)
	}
	said := s.String()
	for _, want := range []string{"Broker in this process at 127.0.0.1:",
		"Produced 500 records to payments by seed 7.", `"table":"idemsk"`} {
		if !strings.Contains(said, want) {
			t.Errorf("the output does not contain %s:\n%s", want, said)
		}
	}
	for _, want := range []string{"500 done", "executed", "everything is committed after"} {
		if !strings.Contains(report.Text(), want) {
			t.Errorf("no %q in the closing table:\n%s", want, report.Text())
		}
	}
}

// A build that does not start is replaced by the next one. The run goes on.
func TestRebuiltFunction(t *testing.T) {
	t.Parallel()
	o, s := options(t, "metrics")
	program, script := o.Function, filepath.Join(t.TempDir(), "bootstrap")
	builds := 0
	build := func(text string) {
		builds++
		at := time.Now().Add(-time.Duration(builds) * time.Hour)
		if err := errors.Join(os.WriteFile(script, []byte("#!/bin/sh\n"+text+"\n"), 0o755), os.Chtimes(script, at, at)); err != nil {
			t.Error(err)
		}
	}
	build("exec " + program)
	o.Function, o.Produce, o.ESM.BatchSize, o.ESM.Pollers = "'"+script+"'", 10, 1, 1
	o.Log = writerFunc(func(line string) {
		switch {
		case builds == 1 && strings.Contains(line, "Executed"):
			build("echo broken build; exit 3")
		case builds == 2 && strings.Contains(line, "broken build"):
			build("echo third build; exec " + program)
		}
		s.say(line)
	})
	report := mustRun(t, o)
	if report.Done != 10 || report.Delivered != 10 || report.Failed != 0 {
		t.Errorf("%+v", report)
	}
	for _, want := range []string{"third build", "The function was built again", "exit status 3"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, s)
		}
	}
}

type writerFunc func(line string)

func (f writerFunc) Write(p []byte) (int, error) { f(string(p)); return len(p), nil }

func TestFaults(t *testing.T) {
	t.Parallel()
	o, s := options(t, "slow")
	o.Produce, o.ESM.Pollers, o.ESM.BatchSize = 400, 2, 10
	o.Faults = local.Faults{Duplicate: 0.3, Kill: 0.2, Concurrent: 0.2, Slow: time.Millisecond}
	report := mustRun(t, o)
	if report.Lag() != 0 || report.Done != 400 || report.Delivered <= 400 || report.Redelivered == 0 ||
		report.Concurrent == 0 || len(report.Kills) == 0 ||
		report.Failed < len(report.Kills) {
		t.Errorf("%+v", report)
	}
	for _, k := range report.Kills {
		if !strings.HasPrefix(k.During, "payments-") || k.At.IsZero() {
			t.Errorf("a kill without what it interrupted: %+v", k)
		}
	}
	if !strings.Contains(s.String(), "Faults by seed 7.") ||
		!strings.Contains(report.Text(),
			fmt.Sprintf("%d failed, %d of them killed on purpose", report.Failed, report.Injected)) {
		t.Errorf("%s\n%s", s, report.Text())
	}
}

func TestAnswersThatCannotBeReadEndTheRun(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "garbage")
	o.Produce, o.ESM.FunctionResponseTypes = 10, []string{esm.ReportBatchItemFailures}
	report, err := run(t, o)
	if report != nil || err == nil || !strings.Contains(err.Error(),
		"the function's first 3 responses can't be read") {
		t.Errorf("%v; want an error that says so", err)
	}
	if errors.Is(err, local.ErrOptions) {
		t.Errorf("%v is not about the options", err)
	}
}

// Records are lost if the function always fails, retries are limited, and there is no destination.
func TestLostRecordsAreReported(t *testing.T) {
	t.Parallel()
	o, s := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts = 20, 1
	o.Show = func(v *local.View) func() { return func() { s.say(v.Line()) } }
	report := mustRun(t, o)
	if report.Lost != 20 || report.Done != 0 || report.Lag() != 0 ||
		report.OwnFailures() != report.Invocations {
		t.Errorf("%+v", report)
	}
	for _, want := range []string{"20 records lost: given up, no on-failure destination\n",
		"last error: payments-", `Boom: no \x1b[31m`, "0 done"} {
		if !strings.Contains(report.Text(), want) {
			t.Errorf("the closing table does not have %q:\n%s", want, report.Text())
		}
	}
	for _, want := range []string{"0 records done, ",
		"20 records lost: given up, no on-failure destination\n  last error: payments-"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the view's line does not have %q:\n%s", want, s)
		}
	}
}

// Without ReportBatchItemFailures, records that a function names as failed are lost. AWS does not report
// that; the run does.
func TestIgnoredFailuresAreReported(t *testing.T) {
	t.Parallel()
	o, s := options(t, "names")
	o.Produce, o.Partitions = 20, 1
	report := mustRun(t, o)
	if report.Ignored == 0 || report.Ignored != report.Invocations || report.Done != 20-report.Ignored ||
		report.Gone() != report.Ignored {
		t.Errorf("%+v", report)
	}
	if n := strings.Count(s.String(), "WARNING: the function names records that failed, and the event source is without ReportBatchItemFailures"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, s)
	}
	if !strings.Contains(report.Text(), " lost: named as failed by the function, without ReportBatchItemFailures\n") {
		t.Errorf("%s", report.Text())
	}
}

// The verification finds a record that is too large for an event. The other options that give records up are
// refused.
func TestVerificationFailsIfARecordIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("payments"),
		kgo.ProducerBatchMaxBytes(10<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(),
		&kgo.Record{Value: make([]byte, 5_000_000)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	o, _ := options(t, "noop")
	o.Brokers, o.Prove = c.ListenAddrs(), true
	report := mustRun(t, o)
	if report.Lost != 1 || report.Verified.OK() ||
		!slices.Contains(report.Verified.Problems, "1 record lost: given up, no on-failure destination") {
		t.Errorf("%+v, problems %q", report.Counts, report.Verified.Problems)
	}
}

// The death of a process is the function's failure, unless it was killed. The message has no request ID.
func TestLastError(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fatal")
	o.Produce, o.Partitions, o.ESM.MaximumRetryAttempts = 5, 1, 0
	report := mustRun(t, o)
	if want := "payments-0@0+4: Runtime.ExitError: Runtime exited with error: exit status 3"; report.LastError != want || report.OwnFailures() != 1 {
		t.Errorf("the last error is %q, want %q; %+v", report.LastError, want, report)
	}
	o, _ = options(t, "slow")
	o.Produce, o.Faults.Kill, o.ESM.BatchSize = 100, 0.5, 10
	if report, err := run(t, o); err != nil || len(report.Kills) == 0 || report.OwnFailures() != 0 ||
		report.LastError != "" || report.Lost != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

// All clients of the brokers authenticate.
func TestBrokersWithAuthentication(t *testing.T) {
	t.Parallel()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments", "letters"),
		kfake.ListenFn(loopback),
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o, _ := options(t, "fails")
	o.Brokers, o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = c.ListenAddrs(), 10, 0,
		"kafka://letters"
	o.Kafka = []kgo.Opt{kgo.SASL(plain.Auth{User: "user", Pass: "secret"}.AsMechanism())}
	report, err := run(t, o)
	if err != nil || report.Sent != 10 {
		t.Errorf("%+v, %v", report, err)
	}
	o.Kafka = nil
	if _, err := run(t, o); err == nil ||
		!strings.Contains(err.Error(), "whether the listener needs --tls or --auth") {
		t.Errorf("%v", err)
	}
}

// Ctrl-C ends a run without an error. Finished records are committed.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	o, s := options(t, "slow")
	o.UntilDrained, o.Produce = false, 1000
	o.ESM.BatchSize = 1
	ctx, stop := context.WithCancel(t.Context())
	shown := 0
	o.Show = func(v *local.View) func() {
		shown++
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if line := v.Line(); !strings.HasPrefix(line, "0 records done") &&
					!strings.Contains(line, "lag 0,") {
					stop()
				}
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
				}
			}
		}()
		return func() {
			<-done
			s.say(v.Line())
			s.say(
				strings.Join(v.Lines(term.Room{Columns: 79, Rows: 23}), "\n"))
		}
	}
	report, err := local.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Done == 0 || report.Done >= 1000 || report.Lag() == 0 || shown != 1 ||
		report.Done != report.Delivered {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(report.Text(), "not committed after") ||
		!strings.Contains(s.String(), "partition  poller  committed") {
		t.Errorf("%s\n%s", report.Text(), s)
	}
}

// The view fits its room by omitting partitions. It shows an error in several lines.
func TestViewInASmallRoom(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fatal")
	o.Produce, o.Partitions, o.ESM.MaximumRetryAttempts = 100, 14, 0
	var shown, cut []string
	o.Show = func(v *local.View) func() {
		return func() {
			shown = v.Lines(term.Room{Columns: 49, Rows: 23})
			cut = v.Lines(term.Room{Columns: 49, Rows: 5})
		}
	}
	mustRun(t, o)
	text := strings.Join(shown, "\n")
	if len(shown) != 23 || !strings.Contains(text, " more that lag less\n") ||
		!strings.Contains(text, "\nlast error: payments-") ||
		!strings.HasSuffix(text, "error: exit status 3") {
		t.Errorf("%d lines:\n%s", len(shown), text)
	}
	if !strings.Contains(strings.Join(cut, "\n"), "… and 14 more") {
		t.Errorf("in a room of 5 lines: %q", cut)
	}
}

func TestHostileErrorsAreEscaped(t *testing.T) {
	t.Parallel()
	o, s := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts = 5, 0
	o.Show = func(v *local.View) func() {
		return func() { s.say(strings.Join(v.Lines(term.Room{Columns: 79, Rows: 23}), "\n")) }
	}
	mustRun(t, o)
	if said := s.String(); strings.Contains(said, "\x1b") || !strings.Contains(said, `Boom: no \x1b[31m`) {
		t.Errorf("%q", said)
	}
}
