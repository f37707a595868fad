package replay_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/replay"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/stream"
)

// small is a run that takes seconds.
func small() replay.Options {
	return replay.Options{
		Function: handler, Store: replay.StoreFake,
		Stream:     stream.Config{Records: 600, Partitions: 4, BatchSize: 60, Seed: 11},
		Duplicates: 0.5, MaxDeliveries: 10, Timeout: time.Minute, Log: io.Discard,
	}
}

func run(t *testing.T, o replay.Options) *replay.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r, err := replay.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// samples are the repository's sample events.
func samples(t *testing.T, names ...string) []*mskevent.Batch {
	t.Helper()
	var batches []*mskevent.Batch
	for _, name := range names {
		path := filepath.Join("..", "..", "..", "..", "events", name+".json")
		payload, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := mskevent.Parse(name, payload)
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
	}
	return batches
}

func allSamples(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "events", "*.json"))
	if err != nil || len(paths) < 16 {
		t.Fatalf("%d sample events: %v", len(paths), err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".json"))
	}
	return names
}

func TestStreamWithKills(t *testing.T) {
	t.Parallel()
	o := small()
	o.Kills, o.Compare = 4, true
	r := run(t, o)
	if !r.OK {
		t.Fatalf("problems: %q", r.Problems)
	}
	w := &r.With
	if w.Killed != 4 || w.ColdStarts != 5 || w.Crashes != 0 || w.Lost != 0 || len(w.Off) != 0 {
		t.Errorf("killed %d, cold starts %d, crashes %d, lost %d, off %v; want 4, 5, 0, 0, none", w.Killed, w.ColdStarts, w.Crashes, w.Lost, w.Off)
	}
	if n := w.Outcomes.Executed + w.ExecutedUnreported; n != r.Payments || w.ExecutedUnreported == 0 {
		t.Errorf("executed %d (%d of them unreported), want %d payments", n, w.ExecutedUnreported, r.Payments)
	}
	if w.Outcomes.Stolen == 0 {
		t.Error("no key was stolen from a killed process")
	}
	if w.Redelivered == 0 || w.Outcomes.Duplicates == 0 || w.Outcomes.Retried == 0 {
		t.Errorf("redelivered %d, duplicates %d, retried %d: want some of each", w.Redelivered, w.Outcomes.Duplicates, w.Outcomes.Retried)
	}
	if r.Without == nil || len(r.Without.Off) == 0 || r.Without.Outcomes.Unprotected == 0 || r.Without.Killed != 4 {
		t.Errorf("without idemsk: %+v; want a ledger that is off, and 4 kills", r.Without)
	}
}

func TestRequestsPerRecord(t *testing.T) {
	t.Parallel()
	o := small()
	o.Stream.Records, o.Duplicates = 200, 1
	o.Env = []string{"IDEMSK_LEASE=10m"} // no heartbeat, however slow this machine is
	w := run(t, o).With
	if w.RequestsPerFresh != 2 || w.RequestsPerDuplicate != 1 {
		t.Errorf("requests: %v fresh, %v duplicate; want 2 and 1", w.RequestsPerFresh, w.RequestsPerDuplicate)
	}
}

func TestSampleEvents(t *testing.T) {
	t.Parallel()
	o := small()
	o.Stream.Records = 0
	o.Files = samples(t, allSamples(t)...)
	r := run(t, o)
	if !r.OK {
		t.Fatalf("problems: %q", r.Problems)
	}
	// The samples with a record that must end in the dead letters, and how often; events/README.md says why.
	want := []string{
		"payments-0@2201", "payments-0@4401", "payments-0@4501", "payments-0@4600", "payments-0@5400", "payments-0@5500", "payments-0@5600",
		"payments-0@6000", "payments-0@6100", "payments-0@6200", "payments-0@6300", "payments-0@6400",
		"payments-0@7001", "payments-0@7200", "payments-0@7300", "payments-0@7401",
	}
	var got []string
	for _, l := range r.With.DeadLetters {
		got = append(got, l.Source)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("dead letters:\n got %v\nwant %v", got, want)
	}
	if r.With.Crashes != 5 {
		t.Errorf("%d processes died, want the 5 attempts of process-dies", r.With.Crashes)
	}
}

func TestBrokenFunctionIsFoundOut(t *testing.T) {
	t.Parallel()
	o := small()
	o.Kills = 2
	o.Env = []string{"IDEMSK_STORE=none"}
	r := run(t, o)
	if r.OK || len(r.With.Off) == 0 || len(r.Problems) == 0 {
		t.Fatalf("a function without protection passed: off %v, problems %q", r.With.Off, r.Problems)
	}
	off := r.With.Off[0]
	if off.Account != "account-01/EUR" || off.Found <= off.Expected {
		t.Errorf("the first account that is off: %+v", off)
	}
	if text := r.Text(); !strings.Contains(text, "account-01/EUR has ") || !strings.Contains(text, "Not proven") {
		t.Errorf("the report does not name the account:\n%s", text)
	}
}

func TestUnsettledBatchIsGivenUp(t *testing.T) {
	t.Parallel()
	o := small()
	o.Stream.Records = 0
	o.MaxDeliveries = 3
	o.Files = samples(t, "always-fails-retriable")
	o.Env = []string{"IDEMSK_DEAD_LETTER_QUEUE_URL="}
	r := run(t, o)
	text := strings.Join(r.Problems, "\n")
	for _, want := range []string{
		"always-fails-retriable: given up after 3 deliveries (--max-deliveries)", "payments-0@7200",
		"record payments-0@7200 is lost or unsettled: its key is STARTED, must be FAILED",
		"record payments-0@7201 is lost or unsettled: there is no item of its key",
		"the ledger is off: acc-1/EUR has 0, must have 1350",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the problems do not say %q:\n%s", want, text)
		}
	}
}

func TestBatchFailures(t *testing.T) {
	t.Parallel()
	o := small()
	o.Stream.Records = 0
	o.Files = samples(t, "fails-twice-then-succeeds", "poison-record")
	o.Env = []string{"IDEMSK_FAILURES=batch", "IDEMSK_HASH_KEYS=true", "IDEMSK_NAMESPACE=shop"}
	if r := run(t, o); !r.OK || r.With.Invocations != 4 {
		t.Errorf("%d invocations, want 3 and 1; problems: %q", r.With.Invocations, r.Problems)
	}
}

// What is settled is not delivered again with what is not.
func TestPartialRedelivery(t *testing.T) {
	t.Parallel()
	o := small()
	o.Stream.Records, o.Kills = 0, 3 // without a stream there is nothing to kill in
	o.Files = samples(t, "handler-panics")
	if r := run(t, o); !r.OK || r.With.Invocations != 5 || r.With.Delivered != 6 {
		t.Errorf("%d records in %d deliveries, want 2 and 4 times 1; problems: %q", r.With.Delivered, r.With.Invocations, r.Problems)
	}
}

func TestSameSeedSameRun(t *testing.T) {
	t.Parallel()
	o := small()
	o.Stream.Records, o.Kills = 200, 1
	first, second := run(t, o), run(t, o)
	if !first.OK || !second.OK || first.With.Ledger["EUR"] != second.With.Ledger["EUR"] || first.With.Redelivered != second.With.Redelivered {
		t.Errorf("two runs with seed %d: ledgers %v and %v, redelivered %d and %d; problems %q %q", o.Stream.Seed,
			first.With.Ledger, second.With.Ledger, first.With.Redelivered, second.With.Redelivered, first.Problems, second.Problems)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("somebody pressed Ctrl-C")
	o := small()
	var begun time.Time
	o.Progress = func(func() string) func() {
		begun = time.Now()
		cancel(interrupted)
		return func() {}
	}
	_, err := replay.Run(ctx, o)
	if !errors.Is(err, interrupted) || time.Since(begun) > 20*time.Second {
		t.Errorf("ended after %v with %v", time.Since(begun), err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(o *replay.Options)
		says   string
	}{
		"nothing to play":   {func(o *replay.Options) { o.Stream.Records = 0 }, "nothing to play"},
		"too many kills":    {func(o *replay.Options) { o.Kills = 10_000 }, "to kill before"},
		"a chance":          {func(o *replay.Options) { o.Duplicates = 1.5 }, "duplicates is 1.5"},
		"a store":           {func(o *replay.Options) { o.Store = "postgres" }, `"postgres"`},
		"a table of theirs": {func(o *replay.Options) { o.Env = []string{"IDEMSK_TABLE=prod"} }, "IDEMSK_TABLE can't be set"},
		"a memory store":    {func(o *replay.Options) { o.Env = []string{"IDEMSK_STORE=memory"} }, `IDEMSK_STORE is "memory"`},
		"an unknown key":    {func(o *replay.Options) { o.Env = []string{"IDEMSK_KEY=json:$.a"} }, "IDEMSK_KEY"},
		"no variable":       {func(o *replay.Options) { o.Env = []string{"=x"} }, `"=x" is not NAME=VALUE`},
	} {
		o := small()
		test.change(&o)
		if _, err := replay.Run(t.Context(), o); !errors.Is(err, replay.ErrOptions) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v; want ErrOptions that says %s", name, err, test.says)
		}
	}
}

func TestFunctionThatCannotStart(t *testing.T) {
	t.Parallel()
	o := small()
	o.Env = []string{"IDEMSK_LEASE=soon"}
	_, err := replay.Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), `IDEMSK_LEASE is "soon"`) {
		t.Errorf("the error does not say what the function printed: %v", err)
	}
}
