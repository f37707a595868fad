package layerproxy_test

import (
	"testing"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// A crash of the function costs the record that causes it an attempt, and nothing that the function has done before. A
// call of several records does not tell which one it was: each is alone in its next call.
func TestCrashIsChargedToTheRecordThatCausesIt(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"exit", "kill", "answer partly", "fork and exit"} {
		for name, of := range map[string]struct {
			env   []string
			calls []string
		}{
			"one": {nil, []string{"a#1", "b#1", "b#2", "c#1"}},
			"several": {[]string{"IDEMSK_CALL_RECORDS=100"},
				[]string{"a#1 b#1 c#1", "a#1", "b#1 c#1", "b#1", "b#2", "c#1"}},
		} {
			t.Run(do+", "+name, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, "", append(of.env, partial)...)
				payload := event("a", "b:"+do, "c")
				for n := 0; ; n++ {
					answer, err := f.deliver(payload)
					if err != nil || n == 10 {
						t.Fatalf("answer %s, %v", answer, err)
					}
					if answer == complete {
						break
					}
				}
				if f.function.Starts() < 3 {
					t.Errorf("%d processes, want one after each crash", f.function.Starts())
				}
				f.wantCalls(of.calls...)
				f.wantStatus(store.StatusFailed, "b")
				f.wantStatus(store.StatusCompleted, "a", "c")
				if letters := f.letters(); len(letters) != 1 {
					t.Errorf("dead letters %q", letters)
				}
			})
		}
	}
}

// The runtime does not outlive the layer. If it is killed in the middle of a call, the records of this call run again, in
// order and each alone.
func TestKilledLayer(t *testing.T) {
	t.Parallel()
	for records, want := range map[string][]string{
		"1":   {"a#1", "b#1", "b#2", "c#1", "d#1"},
		"2":   {"a#1 b#1", "a#2", "b#2", "c#1 d#1"},
		"10":  {"a#1 b#1 c#1 d#1", "a#2", "b#2", "c#2", "d#2"},
		"100": {"a#1 b#1 c#1 d#1", "a#2", "b#2", "c#2", "d#2"},
	} {
		t.Run(records, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", shortLease, "IDEMSK_CALL_RECORDS="+records,
				"IDEMSK_BATCHING=off") // the completion of a record is stored before the next one is called
			e := fails[*runtimeapi.CrashError](f, event("a", "b:kill the layer", "c", "d"))
			if e.Status != "signal: killed" {
				t.Errorf("the layer ended with %s", e.Status)
			}
			f.answers(event("a", "b", "c", "d"), complete)
			f.wantCalls(want...)
			f.wantStatus(store.StatusCompleted, "a", "b", "c", "d")
		})
	}
}

// What the function answered before its end is settled and reported.
func TestRuntimeThatExitsAfterItsAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", several...)
	f.answers(event("a:answer and exit", "b"), complete)
	f.wantStatus(store.StatusCompleted, "a", "b")
	f.answers(event("a", "b"), complete)
	f.wantCalls("a#1 b#1")
}

// An error that is the last that a process reports may be that of another part of the function: the effect of the record
// may have taken place.
func TestRuntimeThatExitsAfterAnError(t *testing.T) {
	t.Parallel()
	for do, want := range map[string]string{"report an error and exit": store.CodeOutcomeUnknown,
		"report an error, fork and exit": store.CodeOutcomeUnknown, "raise": store.CodeError} {
		f := newFixture(t, "", "IDEMSK_EFFECTS=at-most-once", partial)
		_, _ = f.deliver(event("a:" + do)) // the runtime has gone
		if e := f.entry("a"); e.Failure.Code != want {
			t.Errorf("%s: the failure is %+v; want the code %s", do, e.Failure, want)
		}
	}
}

// A call after the end of the runtime gives the attempts back.
func TestRuntimeThatExitsBetweenTwoCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", partial)
	f.answers(event("a:answer and exit", "b"), `{"batchItemFailures":[`+item(1)+`]}`)
	f.answers(event("a", "b"), complete)
	f.wantCalls("a#1", "b#1")
}
