package runtimeapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

func TestStatusCodesAreThoseOfAWS(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "breaks every rule"))
	var got map[string]int
	if err := json.Unmarshal(invoke(t, f, "{}").Payload, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"answer before the first event": 400,
		"next before the answer":        403,
		"answer to another request":     400,
		"error of another request":      400,
		"init error after init":         403,
		"path that does not exist":      404,
		"version that does not exist":   404,
		"wrong method":                  404,
		"extension":                     404,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if second := string(invoke(t, f, "{}").Payload); second != "400" {
		t.Errorf("a second answer got %s, want 400", second)
	}
	if e := fails[*runtimeapi.CrashError](t, f, "{}"); e.Refused != "" {
		t.Errorf("the crash shows a refusal from an earlier invocation: %s", e.Refused)
	}
	wantStarts(t, f, 1)
}

func TestAnswersByLengthAndInChunks(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "plain"))
	for _, event := range []string{"chunked", "by length", ""} {
		if result := invoke(t, f, event); string(result.Payload) != event {
			t.Errorf("answer %q, want %q", result.Payload, event)
		}
	}
	wantStarts(t, f, 1)
}

// notShown is the message of an error of so many bytes, which may be values of the records.
func notShown(bytes int) string {
	return fmt.Sprintf("its error is no document with errorType or errorMessage (%d bytes, not shown)", bytes)
}

func TestErrorDocumentsOfOtherRuntimes(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "error as told"))
	for name, c := range map[string]struct {
		header, body, kind, message string
	}{
		"Python": {
			header: "Unhandled", body: `{"errorMessage":"'id'","errorType":"KeyError","requestId":"1","stackTrace":["  File \"app.py\", line 3"]}`,
			kind: "KeyError", message: "'id'",
		},
		"Node": {
			body: `{"errorType":"TypeError","errorMessage":"x is not a function","trace":["TypeError: x","    at handler"]}`,
			kind: "TypeError", message: "x is not a function",
		},
		"Go": {
			body: `{"errorMessage":"m","errorType":"t","stackTrace":[{"path":"a/b.go","line":7,"label":"handle"},{"other":1}]}`,
			kind: "t", message: "m",
		},
		"type in the header": {header: "Function.NoIdea", body: `{"errorMessage":"m"}`,
			kind: "Function.NoIdea", message: "m"},
		"no JSON":          {header: "Function.NoIdea", body: "of 4711", kind: "Function.NoIdea", message: notShown(7)},
		"no type":          {body: "of 4711", kind: "Runtime.Unknown", message: notShown(7)},
		"empty":            {body: "", kind: "Runtime.Unknown", message: notShown(0)},
		"another document": {body: `{"account":"4711"}`, kind: "Runtime.Unknown", message: notShown(18)},
		"stack is not a list": {body: `{"errorType":"t","errorMessage":"m","stackTrace":"none"}`, kind: "t",
			message: "m"},
	} {
		event, err := json.Marshal([2]string{c.header, c.body})
		if err != nil {
			t.Fatal(err)
		}
		e := fails[*runtimeapi.FunctionError](t, f, string(event))
		if e.Type != c.kind || e.Message != c.message || string(e.Payload) != c.body {
			t.Errorf("%s: got %+v", name, e)
		}
	}
	wantStarts(t, f, 1)
}

func TestErrorWithALargeCauseInAHeader(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "error with the largest cause"))
	if e := fails[*runtimeapi.FunctionError](t, f, "{}"); e.Type != "t" {
		t.Errorf("got %+v", e)
	}
}

func TestUnknownResponseMode(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "bad response mode"))
	e := fails[*runtimeapi.FunctionError](t, f, "{}")
	if e.Type != "Runtime.InvalidResponseModeHeader" || !strings.Contains(e.Message, `"telepathic"`) {
		t.Errorf("got %+v", e)
	}
}

func TestTooLargeAnswerIsAFunctionError(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "too large, then small"))
	if e := fails[*runtimeapi.FunctionError](t, f, "{}"); e.Type != "Function.ResponseSizeTooLarge" {
		t.Errorf("got %+v", e)
	}
	if result := invoke(t, f, "{}"); string(result.Payload) != "small" {
		t.Errorf("answer %s", result.Payload)
	}
	wantStarts(t, f, 1)
}

func TestIncompleteAnswerIsACrash(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "truncated answer"))
	e := fails[*runtimeapi.CrashError](t, f, "{}")
	if e.ExitCode != 9 || !strings.Contains(e.Refused, "400 TruncatedHTTPRequest") {
		t.Errorf("got %+v", e)
	}
	if !strings.Contains(e.Error(), "its last refused request: POST /2018-06-01/runtime/invocation/"+
		e.RequestID+"/response: 400") {
		t.Errorf("error %q", e)
	}
}

func TestProcessThatDoesNotReadItsEventTimesOut(t *testing.T) {
	t.Parallel()
	cfg := config(t, "takes the event and does not read it")
	cfg.Timeout = time.Second
	f := start(t, cfg)
	payload := make([]byte, runtimeapi.MaxPayload)
	_, err := f.Invoke(t.Context(), payload)
	var timedOut *runtimeapi.TimeoutError
	if !errors.As(err, &timedOut) || !errors.Is(err, runtimeapi.ErrNotTaken) {
		t.Errorf("error %v, want a timeout of an event that was not taken", err)
	}
	clear(payload) // which the race detector watches
}

// The next process gets an event that a process did not read to its end. After the second such process no
// process has taken the event.
func TestEventGoesToTheNextProcessIfOneEndsBeforeItHasReadIt(t *testing.T) {
	t.Parallel()
	const ends = modeVariable + "=ends before it has read its event"
	payload := bytes.Repeat([]byte("a"), runtimeapi.MaxPayload) // more than the connection holds
	for name, second := range map[string]string{"and the next one reads it": modeVariable + "=plain", "and so does the next one": ends} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, "")
			cfg.Command = []string{"sh", "-c", `export "$2"; if mkdir "$0" 2>/dev/null; then export "$1"; fi; exec "$3"`,
				filepath.Join(t.TempDir(), "started"), ends, second, cfg.Command[0]}
			f := start(t, cfg)
			result, err := f.Invoke(t.Context(), payload)
			switch {
			case second == ends && !errors.Is(err, runtimeapi.ErrNotTaken):
				t.Errorf("error %v, want that no process has taken the event", err)
			case second != ends && (err != nil || !bytes.Equal(result.Payload, payload)):
				t.Errorf("%d bytes, error %v; want the event", len(result.Payload), err)
			}
			wantStarts(t, f, 2)
		})
	}
}

func TestAnswerIsAcceptedAfterTheEventWasRead(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "answers early"))
	payload := bytes.Repeat([]byte("a"), runtimeapi.MaxPayload)
	if _, err := f.Invoke(t.Context(), payload); err != nil {
		t.Fatal(err)
	}
	clear(payload)
	if result := invoke(t, f, "{}"); string(result.Payload) != fmt.Sprint(runtimeapi.MaxPayload) {
		t.Errorf("of the event only %s of %d bytes were as they had been sent", result.Payload,
			runtimeapi.MaxPayload)
	}
}

func TestStreamedErrorWithoutEncoding(t *testing.T) {
	t.Parallel()
	f := start(t, config(t, "stream with a trailer that is no base64"))
	if e := fails[*runtimeapi.FunctionError](t, f, "{}"); e.Type != "Function.Odd" ||
		e.Message != notShown(len("no base64")) {
		t.Errorf("got %+v", e)
	}
}

func TestProcessThatStopsAskingForWorkIsReplaced(t *testing.T) {
	t.Parallel()
	cfg := config(t, "answers and never asks again")
	cfg.Timeout = time.Second
	f := start(t, cfg)
	invoke(t, f, "{}")
	invoke(t, f, "{}")
	wantStarts(t, f, 2)
}

func TestCancelledRequestForWorkGetsNoInvocation(t *testing.T) {
	t.Parallel()
	cfg := config(t, "hangs up and asks again")
	hungUp := make(chan struct{})
	cfg.Stdout = func([]byte) { close(hungUp) }
	f := start(t, cfg)
	<-hungUp
	if result := invoke(t, f, "work"); string(result.Payload) != "work" {
		t.Errorf("answer %s", result.Payload)
	}
}
