package layerproxy_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// shortLease is for tests in which a process ends with its claims. It is long enough for a busy machine.
const shortLease = "IDEMSK_LEASE=2s"

// The function gets each key once. It is not called if all records have completed.
// The function gets the records that must run, one in a call, or several.
func TestFunctionGetsOnlyTheRecordsThatMustRun(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct{ env, calls []string }{
		"one":     {nil, []string{"a#1", "b#1", "c#1"}},
		"several": {several, []string{"a#1 b#1", "c#1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", of.env...)
			f.answers(event("a", "b", "a"), complete)
			f.answers(event("a", "b", "a"), complete)
			f.answers(event("b", "c", "a"), complete)
			f.wantCalls(of.calls...)
			f.wantStatus(store.StatusCompleted, "a", "b", "c")
		})
	}
}

func TestWithoutTheLayerDuplicatesHappen(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	f.unwrapped()
	for range 2 {
		if _, err := f.deliver(event("a", "b", "a")); err != nil {
			t.Fatal(err)
		}
	}
	f.wantCalls("a# b# a#", "a# b# a#")
}

// The event of the function has the records as they arrived, with the token and the attempt behind their
// headers. Its deadline is before that of the invocation by the margin.
func TestEventOfTheFunction(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", append(several, "IDEMSK_DEADLINE_MARGIN=5s")...)
	whole := strings.Replace(string(event("a", "b")), `"offset":1`, `"unknown" : [ 1.0e3 ] , "offset":1`, 1)
	f.answers([]byte(whole), complete)
	want := whole
	for _, key := range []string{"a", "b"} {
		header := fmt.Sprintf(`{"trace":[%d]}`, key[0])
		var token []string
		for _, digit := range []byte(strconv.FormatInt(f.entry(key).Token, 10)) {
			token = append(token, strconv.Itoa(int(digit)))
		}
		want = strings.Replace(want, header,
			header+`,{"idemsk-token":[`+strings.Join(token, ",")+`]},{"idemsk-attempt":[49]}`, 1)
	}
	got := f.received()[0]
	if string(got.Payload) != want {
		t.Errorf("got  %s\nwant %s", got.Payload, want)
	}
	for _, name := range []string{"Aws-Request-Id", "Trace-Id", "Invoked-Function-Arn", "Deadline-Ms"} {
		if got.Header.Get("Lambda-Runtime-"+name) == "" {
			t.Errorf("the header %s is missing: %v", name, got.Header)
		}
	}
	f.deliver([]byte(`{"plain":1}`))
	first, second := f.received()[0].Header, f.received()[1].Header
	var wrapped, passed int64
	fmt.Sscan(first.Get("Lambda-Runtime-Deadline-Ms"), &wrapped)
	fmt.Sscan(second.Get("Lambda-Runtime-Deadline-Ms"), &passed)
	if margin := passed - wrapped; margin < 5000 || margin > 35_000 {
		t.Errorf("the margin is %d ms, want 5000 and the time between the two invocations", margin)
	}
}

// What a partial response names is released with its attempt. Everything else completes.
func TestPartialResponse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", append(several, partial)...)
	f.answers(event("a", "b:fail", "c:result", "d:fail for good", "e:fail for an hour"),
		`{"batchItemFailures":[`+item(1)+`,`+item(2)+`,`+item(3)+`,`+item(4)+`]}`)
	f.wantStatus(store.StatusCompleted, "a", "c")
	f.wantStatus(store.StatusFailed, "d")
	if got := string(f.entry("c").Result); got != `{"booking":"c"}` {
		t.Errorf("the stored result is %q", got)
	}
	if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], "the account is closed") {
		t.Errorf("dead letters %q", letters)
	}
	if e := f.entry("e"); e.RetryAt.Sub(e.UpdatedAt) < time.Hour-time.Second {
		t.Errorf("the pause is not stored: %+v", e)
	}
	// The second attempt of b is its last.
	f.answers(event("a", "b:fail", "c"), complete)
	f.wantCalls("a#1 b#1 c#1 d#1 e#1", "b#2")
	if letters := f.letters(); len(letters) != 1 ||
		!strings.Contains(letters[0], "named the record in batchItemFailures") {
		t.Errorf("dead letters %q", letters)
	}
}

func item(offset int) string {
	return fmt.Sprintf(`{"itemIdentifier":{"partition":"payments-3","offset":%d}}`, offset)
}

// The lines of the log have the ID of the invocation.
func TestLogHasTheRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", partial)
	lines := make(chan string, 100)
	f.config.Stderr = func(line []byte) { lines <- string(line) }
	f.answers(event("a", "b:fail"), `{"batchItemFailures":[`+item(1)+`]}`)
	f.stop()
	close(lines)
	id, logged := f.received()[0].id(), 0
	for line := range lines {
		if strings.HasPrefix(line, "{") {
			logged++
			if !strings.Contains(line, `"requestId":"`+id+`"`) {
				t.Errorf("a line without the request ID %s: %s", id, line)
			}
		}
	}
	if logged < 2 {
		t.Errorf("%d lines; want those of the record and of the batch", logged)
	}
}

// A call that fails as a whole is no evidence against its records: each is handled alone, and only the one
// that fails alone has an attempt counted.
func TestCallThatFailsAsAWhole(t *testing.T) {
	t.Parallel()
	for do, says := range map[string]string{
		"answer too much": "exceeds 6291556 bytes",
		"fail another":    "a record that was not in the event",
		"raise":           "ValueError: no such account",
		"answer garbage":  "is not JSON, at byte 22 of 22",
		"answer a text":   "in a text, where it is not read",
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", append(several, partial)...)
			f.answers(event("a", "b:"+do, "c"), `{"batchItemFailures":[`+item(1)+`,`+item(2)+`]}`)
			f.wantStatus(store.StatusCompleted, "a", "c")
			f.answers(event("a", "b:"+do, "c", "d", "e", "f"), complete) // the last attempt of b, which is alone
			f.wantCallsUnordered(4, "a#1 b#1 c#1", "a#1", "b#1", "c#1", "b#2", "d#1", "e#1 f#1")
			if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], says) {
				t.Errorf("dead letters %q, want one that says %q", letters, says)
			}
		})
		t.Run(do+", a record in a call", func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", partial)
			f.answers(event("a", "b:"+do, "c"), `{"batchItemFailures":[`+item(1)+`,`+item(2)+`]}`)
			f.answers(event("a", "b:"+do, "c"), complete)
			f.wantCalls("a#1", "b#1", "b#2", "c#1")
			if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], says) {
				t.Errorf("dead letters %q, want one that says %q", letters, says)
			}
		})
	}
}

// A function may return any JSON: without an error, and if it names no record, its records have taken effect.
func TestAnyJSONCompletesTheRecords(t *testing.T) {
	t.Parallel()
	for _, failures := range []string{partial, "IDEMSK_FAILURES=batch"} {
		f := newFixture(t, "", failures)
		f.answers(event("a", "b:answer ok"), complete)
		f.wantCalls("a#1", "b#1")
		f.wantStatus(store.StatusCompleted, "a", "b")
	}
}

// Without partial responses a failed record fails the invocation, which names it.
func TestBatchResponse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	e := fails[*runtimeapi.FunctionError](f, event("a", "b:raise"))
	if e.Type != "BatchError" || !strings.Contains(e.Message, "1 of 2 records") ||
		!strings.Contains(e.Message, "ValueError: no such account") {
		t.Errorf("error %s: %s", e.Type, e.Message)
	}
	f.answers(event("a:answer ok", "c"), complete)
	e = fails[*runtimeapi.FunctionError](f, event("d", "e:fail"))
	if !strings.Contains(e.Message, "1 of 2 records") {
		t.Errorf("error %s", e.Message)
	}
	f.wantCalls("a#1", "b#1", "c#1", "d#1", "e#1")
	f.wantStatus(store.StatusCompleted, "a", "c", "d")
}

// Records that are in flight elsewhere are passed to the function when they are free, in a further call of
// the invocation.
func TestRecordsInFlightElsewhereGetAFurtherCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", several...)
	held := f.hold("b")
	var once sync.Once
	f.config.Stdout = func(line []byte) {
		if string(line) == "called" {
			once.Do(func() { f.release(held) })
		}
	}
	f.answers(event("a", "b", "c"), complete)
	f.wantCalls("a#1 c#1", "b#1")
	first, second := f.received()[0].id(), f.received()[1].id()
	if second != first+"-2" {
		t.Errorf("request IDs %s and %s", first, second)
	}
}

func TestSecondAnswerIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	statuses := make(chan string, 10)
	f.config.Stdout = func(line []byte) {
		if strings.HasPrefix(string(line), "answers:") {
			statuses <- string(line)
		}
	}
	f.answers(event("a:answer twice"), complete)
	if got := <-statuses; got != "answers: 202 400" {
		t.Errorf("%s, want 202 400", got)
	}
	f.wantStatus(store.StatusCompleted, "a")
}

// A late answer, to a call that was answered or given up before, is refused, and is not taken for the answer
// to the open call.
func TestLateAnswerIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", partial)
	said := make(chan string, 10)
	f.config.Stdout = func(line []byte) {
		if strings.HasPrefix(string(line), "answers:") {
			said <- string(line)
		}
	}
	f.answers(event("a", "b:answer the call before"), complete)
	if got := <-said; got != "answers: 400 202" {
		t.Errorf("%s, want 400 202", got)
	}
	f.wantStatus(store.StatusCompleted, "a", "b")
}

// A function may answer in another thread than the one that asked, while other threads still work.
func TestFunctionWithThreads(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	f.answers(event("a:answer in a thread", "b"), complete)
	f.answers(event("b", "c", "a:answer in a thread"), complete)
	f.answers([]byte(`{"plain":1}`), `{"plain":1}`)
	f.answers(event("c", "d"), complete)
	f.wantStatus(store.StatusCompleted, "a", "b", "c", "d")
	ran := make(map[string]int)
	for _, e := range f.received() {
		for _, r := range e.records {
			ran[r.key]++
		}
	}
	if fmt.Sprint(ran) != "map[a:1 b:1 c:1 d:1]" {
		t.Errorf("the records ran %v", ran)
	}
}

// With SnapStart the layer builds its clients and its name after the restore, at the first Kafka event. So an
// invalid configuration is an error of that event.
func TestSnapStart(t *testing.T) {
	t.Parallel()
	const snapStart = "AWS_LAMBDA_INITIALIZATION_TYPE=snap-start"
	f := newFixture(t, "", snapStart)
	f.answers([]byte(`{"plain":1}`), `{"plain":1}`)
	f.answers(event("a"), complete)
	f.answers(event("a", "b"), complete)
	f.wantStatus(store.StatusCompleted, "a", "b")

	f = newFixture(t, "", snapStart, "IDEMSK_LEASE=1m30")
	f.answers([]byte(`{"plain":1}`), `{"plain":1}`)
	if e := fails[*runtimeapi.FunctionError](f, event("a")); e.Type != "InvalidConfiguration" ||
		!strings.Contains(e.Message, "IDEMSK_LEASE") {
		t.Errorf("error %s: %s", e.Type, e.Message)
	}
}

func TestRuntimeThatAsksWithoutAnAnswerIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	printed := make(chan string, 10)
	f.config.Stdout = func(line []byte) { printed <- string(line) }
	if e := fails[*runtimeapi.FunctionError](f, event("a:answer nothing")); e.Type != "BatchError" ||
		!strings.Contains(e.Message, "the function's process ended in the call") {
		t.Errorf("got %+v", e)
	}
	for line := range printed {
		if strings.Contains(line, "next: 403") {
			break
		}
	}
	f.wantStatus(store.StatusStarted, "a")
}

// A function that does not answer in time fails its invocation before the time-out. Its process ends. The key of the
// record stays claimed; what completed before stays so.
func TestFunctionThatHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", shortLease)
	// of which the layer keeps a part for its answer, also on a busy machine
	f.config.Timeout = 20 * time.Second
	e := fails[*runtimeapi.FunctionError](f, event("a", "b:hang"))
	if e.Type != "Overrun" || !strings.Contains(e.Message, "payments-3@1") {
		t.Errorf("error %s: %s", e.Type, e.Message)
	}
	f.wantStatus(store.StatusCompleted, "a")
	f.wantStatus(store.StatusStarted, "b")
	f.answers(event("a", "b"), complete)
	f.wantCalls("a#1", "b#1", "b#2")
	if starts := f.function.Starts(); starts != 2 {
		t.Errorf("%d starts, want 2", starts)
	}
}

func TestEventThatIsNoValidKafkaEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	for payload, says := range map[string]string{
		`{"eventSource":"aws:kafka"}`: `it has no "records"`,
		`{"eventSource":"aws:kafka","records":{"t-0":[{"offset":1},{"offset":1}]}}`: "the record t-0@1 twice",
	} {
		if e := fails[*runtimeapi.FunctionError](f, []byte(payload)); e.Type != "InvalidEvent" ||
			!strings.Contains(e.Message, says) {
			t.Errorf("error %s: %s", e.Type, e.Message)
		}
	}
	f.wantCalls()
}

func TestLargeEvents(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", several...)
	var records []string
	for i := range 44 { // base64 makes 5.9 MB of them
		records = append(records, fmt.Sprintf("k%d:%s", i, strings.Repeat("x", 100_000)))
	}
	f.answers(event(records...), complete)
	f.answers(event(records...), complete)
	if calls := f.received(); len(calls) != 1 || len(calls[0].records) != len(records) ||
		len(calls[0].records[43].do) != 100_000 {
		t.Errorf("%d calls", len(calls))
	}
	plain := `"` + strings.Repeat("y", runtimeapi.MaxPayload-2) + `"`
	if got, err := f.deliver([]byte(plain)); err != nil || got != plain {
		t.Errorf("an event of %d bytes: answer of %d bytes, %v", len(plain), len(got), err)
	}
}

func TestSignalsAreForTheRuntime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "ends on SIGTERM")
	var said []string
	f.config.Stdout = func(line []byte) {
		if string(line) != "called" {
			said = append(said, string(line))
		}
	}
	f.answers([]byte(`1`), `1`)
	f.stop()
	if fmt.Sprint(said) != "[bye]" {
		t.Errorf("the runtime said %q", said)
	}
	if _, err := os.Stat(f.events); err != nil {
		t.Error(err)
	}
}
