package local_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
)

// A process that is paused beyond its lease loses its key. Its late completion is refused, and the key is
// completed once.
func TestPageShowsAKeyThatIsTakenOver(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	p.do(console.Action{Action: console.ActionPause}, "is paused at its completion")
	p.do(console.Action{Action: console.ActionPause}, "not available")
	p.produce("pay-1", "")
	h := p.history("pay-1", console.KindFenced)
	want := []string{"delivered 1", "claimed 1", "paused 1", "delivered 2", "stolen 2", "completed 2",
		"resumed 1", "fenced 1"}
	if got := kinds(h); !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
	if k := h.Key; k.State != console.Completed || k.Attempts != 2 || k.Steals != 1 || k.Refused == 0 ||
		!strings.Contains(k.Outcome, "pay-1") {
		t.Errorf("the key is %+v", k)
	}
	var stolen, fenced console.Event
	for _, e := range h.Events {
		switch e.Kind {
		case console.KindStolen:
			stolen = e
		case console.KindFenced:
			fenced = e
		}
	}
	if stolen.Token != fenced.Token+1 || h.Key.Token != stolen.Token || fenced.Batch != "payments-0@0+0" {
		t.Errorf("taken over %+v, refused %+v", stolen, fenced)
	}
	p.produce("pay-1", "") // a duplicate
	if h = p.history("pay-1", console.KindReplayed); h.Key.Replays == 0 || h.Key.Attempts != 2 {
		t.Errorf("after a duplicate: %+v", h.Key)
	}
	if keys := get[console.Keys](p, "api/keys?has=pay-1&state=completed"); keys.Selected != 1 ||
		len(keys.Keys) != 1 || keys.States[console.Completed] != 1 {
		t.Errorf("the keys are %+v", keys)
	}
	if keys := get[console.Keys](p, "api/keys?state=failed"); keys.Selected != 0 {
		t.Errorf("failed keys: %+v", keys)
	}
}

// A process that is killed keeps its key until the lease is over. The report counts the kill.
func TestPageKillsAProcess(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	p.do(console.Action{Action: console.ActionKill}, "is killed")
	p.produce("pay-1", "")
	h := p.history("pay-1", console.KindCompleted)
	if got, want := kinds(h), []string{"delivered 1", "claimed 1", "died 1", "delivered 2", "stolen 2",
		"completed 2"}; !slices.Equal(got, want) {
		t.Errorf("the history is %q, want %q", got, want)
	}
	all := get[console.Invocations](p, "api/invocations").Invocations
	if last := all[len(all)-1]; last.Outcome != console.OutcomeKilled || last.Try != 1 || last.Process != 1 ||
		last.Records != 1 {
		t.Errorf("the first invocation is %+v", last)
	}
	p.stop()
	<-p.ended
	if p.report == nil || len(p.report.Kills) != 1 || p.report.Kills[0].During != "payments-0@0+0" ||
		p.report.OwnFailures() != 0 {
		t.Errorf("%+v", p.report)
	}
}

// A process that is killed after its effect has no answer to it. In atomic mode the completion is part of the
// effect, and the next delivery replays it. In plain mode the payment is booked again when the lease is over;
// the verdict explains that by the kill.
func TestPageKillsAProcessAfterItsEffect(t *testing.T) {
	t.Parallel()
	for ledger, want := range map[string]struct {
		kinds   []string
		repeats int
		found   int64
	}{
		"atomic": {[]string{"delivered 1", "claimed 1", "completed 1", "died 1", "delivered 2", "replayed 2"},
			0, 5},
		"plain": {[]string{"delivered 1", "claimed 1", "died 1", "delivered 2", "stolen 2", "completed 2"},
			1, 10},
	} {
		t.Run(ledger, func(t *testing.T) {
			t.Parallel()
			p := open(t, func(o *local.Options) { o.Env = append(o.Env, "IDEMSK_LEDGER="+ledger) })
			p.do(console.Action{Action: console.ActionKillEffect}, "killed before it gets the answer")
			p.produce("pay-1", "")
			v := p.verdict("the ledger is explained", func(v *console.Verdict) bool {
				return v.Sides[0].State == console.SideExact && v.Sides[0].Records == 1
			})
			got := kinds(get[console.History](p, "api/key?key="+url.QueryEscape("function#payments#pay-1")))
			// On a busy machine the process can send its transaction again before it is killed.
			got = slices.DeleteFunc(got, func(kind string) bool { return kind == "replayed 1" })
			if !slices.Equal(got, want.kinds) {
				t.Errorf("the history is %q, want %q", got, want.kinds)
			}
			if s := v.Sides[0]; s.Kills != 1 || s.Repeats != want.repeats || s.Sums[0].Expected != 5 ||
				s.Sums[0].Found != want.found {
				t.Errorf("the verdict is %+v", s)
			}
		})
	}
}

// The exact event of an invocation is delivered again, to one process and to two at once.
func TestPageDeliversABatchAgain(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	p.produce("pay-1", "")
	p.history("pay-1", console.KindCompleted)
	p.until("it is committed", func(run *console.Run) bool { return progress(run).Committed == 1 })
	first := get[console.Detail](p, "api/invocation?number=1")
	if first.Outcome != console.OutcomeOK || !strings.Contains(first.Event, `"payments-0":[{`) ||
		!strings.Contains(strings.Join(first.Log, "\n"), `"Executed":1`) {
		t.Errorf("the invocation is %+v", first)
	}
	p.do(console.Action{Action: console.ActionRedeliver, Invocation: 1}, "delivered again")
	p.do(console.Action{Action: console.ActionTwice, Invocation: 1}, "two processes at once")
	p.do(console.Action{Action: console.ActionRedeliver, Invocation: 99}, "not kept")
	if h := p.history("pay-1", console.KindReplayed); h.Key.Replays != 3 || h.Key.Attempts != 1 {
		t.Errorf("the key is %+v", h.Key)
	}
	if n := get[console.Invocations](p, "api/invocations").Invocations; len(n) != 4 ||
		get[console.Detail](p, "api/invocation?number=4").Event != first.Event {
		t.Errorf("the invocations are %+v", n)
	}
}

// A dead letter has its reason and its value. When it is redriven, its key is claimed again.
func TestPageRedrivesADeadLetter(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	p.produce("pay-1", `,"simulate":"permanent"`)
	if h := p.history("pay-1", console.KindFailed); h.Key.State != console.Failed ||
		!strings.Contains(h.Key.Outcome, "simulated failure") {
		t.Errorf("the key is %+v", h.Key)
	}
	letters := get[[]console.Letter](p, "api/letters")
	if len(letters) != 1 || letters[0].Code != "permanent" ||
		!strings.Contains(letters[0].Value, `"paymentId":"pay-1"`) || letters[0].Source != "payments-0@0" {
		t.Fatalf("the letters are %+v", letters)
	}
	p.do(console.Action{Action: console.ActionRedrive, Letters: []string{"another"}},
		"0 dead letters redriven")
	p.do(console.Action{Action: console.ActionRedrive, Letters: []string{letters[0].ID}},
		"1 dead letter redriven")
	p.until("it fails again", func(*console.Run) bool {
		again := get[[]console.Letter](p, "api/letters")
		return len(again) == 1 && again[0].Token > letters[0].Token
	})
	p.produce("pay-2", "")
	p.produce("pay-2", "")
	p.until("all are done", func(run *console.Run) bool { return progress(run).Committed == 4 })
	p.stop()
	<-p.ended
	const want = "\n1 record completed, 1 with the key of another, 1 dead letter left (1 redriven or discarded)\n"
	if p.report == nil || !strings.Contains(p.report.Text(), want) {
		t.Errorf("the report is %+v, want %q", p.report, want)
	}
}

// While the mapping is disabled, nothing is delivered. While the store is slow or fails, records wait.
func TestPageDisablesTheMappingAndTheStore(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	p.do(console.Action{Action: console.ActionDisable}, "disabled")
	p.produce("pay-1", "")
	p.until("the record is in the topic",
		func(run *console.Run) bool { return progress(run).End == 1 && !run.Enabled })
	if n := get[console.Invocations](p, "api/invocations").Invocations; len(n) != 0 {
		t.Errorf("invocations of a disabled mapping: %+v", n)
	}
	p.do(console.Action{Action: console.ActionStoreFail}, "fails for 10s")
	p.do(console.Action{Action: console.ActionStoreSlow}, "takes 1s more")
	p.do(console.Action{Action: console.ActionEnable}, "enabled")
	p.until("it is done", func(run *console.Run) bool { return run.Enabled && progress(run).Committed == 1 })
	h := p.history("pay-1", console.KindCompleted)
	if len(h.Events) == 0 || h.Key.State != console.Completed {
		t.Errorf("%+v", h)
	}
	if n := get[console.Invocations](p, "api/invocations").Invocations; len(n) < 2 {
		t.Errorf("the failing store did not fail an invocation: %+v", n)
	}
}

// The page has no buttons that a run can't serve, and says what it can't show.
func TestPageOfAFunctionWithoutStore(t *testing.T) {
	t.Parallel()
	p := open(t, func(o *local.Options) {
		plain, _ := options(t, "noop")
		o.Function, o.Env, o.Example, o.Store = plain.Function, plain.Env, false, local.StoreNone
	})
	run := get[console.Run](p, "api/run")
	if want := []string{console.ActionProduce, console.ActionProduceFile, console.ActionDisable,
		console.ActionEnable, console.ActionRedeliver, console.ActionTwice}; !slices.Equal(run.Actions,
		want) ||
		!strings.Contains(run.Notice, "--store fake only") {
		t.Errorf("%+v", run)
	}
	if !strings.Contains(run.WhyNoEffect, "--store fake") {
		t.Errorf("it says %q", run.WhyNoEffect)
	}
	p.do(console.Action{Action: console.ActionKill}, "not available")
	p.do(console.Action{Action: console.ActionKillEffect}, "not available")
	p.produce("pay-1", "")
	p.until("it is done", func(run *console.Run) bool { return progress(run).Committed == 1 })
	if n := get[console.Invocations](p, "api/invocations").Invocations; len(n) != 1 || n[0].Process != 1 {
		t.Errorf("%+v", n)
	}
}

// The records of a file are produced if each line is a record. Otherwise none is, and the answer names the
// lines.
func TestPageProducesAFile(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	line := func(id string) string {
		return fmt.Sprintf(`{"key":"alice","value":{"paymentId":%q,"account":"alice","amount":5,"currency":"EUR"},"headers":{"idempotency-key":%[1]q}}`, id) + "\n"
	}
	file := func(text, says string) {
		t.Helper()
		p.do(console.Action{Action: console.ActionProduceFile, File: text}, says)
	}
	file(line("pay-1")+"{}\n\nno record\n",
		`nothing was produced: line 2: the record has no \"value\" (null is a tombstone); line 4: want a record such as`)
	file(line("pay-1")+strings.Repeat("{}\n", 12), "; and 7 more")
	file("\n\n", "the file has no records")
	file(strings.Repeat(" ", console.MaxFile+1), "the page takes 4194304 at most")
	file(strings.Repeat(`"`, console.MaxFile), "nothing was produced: line 1") // escaped, it is twice as long
	file(line("pay-1")+"\n"+line("pay-2"), "Produced 2 records to payments.")
	p.history("pay-2", console.KindCompleted)
	p.until("both are committed", func(run *console.Run) bool {
		return progress(run).Committed == 2 &&
			progress(run).End == 2
	})
	file(line("pay-3")+`{"value":"`+strings.Repeat("x", 2<<20)+`"}`,
		"1 of 2 records were produced: line 2: producing to payments: ")
}

// Tabs that are opened and closed leave no goroutine, no connection and no file behind. Not parallel: it
// counts those of the process.
func TestPageForgetsClosedTabs(t *testing.T) {
	p := open(t, nil)
	p.produce("pay-1", "")
	p.history("pay-1", console.KindCompleted)
	tabs := func(n int) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				client := &http.Client{Transport: new(http.Transport)}
				defer client.CloseIdleConnections()
				var events *bufio.Scanner
				for _, path := range []string{"", "console.js", "api/keys", "api/invocations", "api/verdict",
					"api/letters", "api/stream"} {
					req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
					if err != nil {
						t.Error(err)
						return
					}
					resp, err := client.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					defer resp.Body.Close()
					if events = bufio.NewScanner(resp.Body); path != "api/stream" {
						_, _ = io.Copy(io.Discard, resp.Body)
					}
				}
				for range 4 { // two states, each with an empty line
					events.Scan()
				}
			})
		}
		all.Wait()
	}
	held := func() (goroutines, files int) {
		all, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(all)
	}
	tabs(1)
	const margin = 8 // connections to the store and the brokers, which come and go by themselves
	goroutines, files := held()
	tabs(20)
	p.until("the tabs are forgotten", func(*console.Run) bool {
		g, f := held()
		return g <= goroutines+margin && f <= files+margin
	})
}
