package idem_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestPermanentErrorIsDeadLetteredAtOnce(t *testing.T) {
	st := newSpy()
	letters := &deadLetters{}
	task := taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom)))
	out := newEngine(t, st, idem.Config{HashKeys: true}).Do(t.Context(), task)
	wantKind(t, out, idem.DeadLettered)
	wantErr(t, out.Err, errBoom)
	entry := get(t, st, hashed(testKey))
	equal(t, "status", entry.Status, store.StatusFailed)
	equal(t, "attempts", entry.Attempts, 1)
	equal(t, "code", entry.Failure.Code, store.CodePermanent)
	b := letters.sent[0]
	equal(t, "the dead letter's attempt", b.Attempt,
		idem.Attempt{Key: testKey, Token: entry.Token, Number: 1, Source: testSource})
	equal(t, "the dead letter's stored key", b.StoredKey, hashed(testKey))
	equal(t, "the dead letter's failure", b.Failure,
		store.Failure{Code: store.CodePermanent, Message: "boom"})
	wantErr(t, b.Err, errBoom)
}

// If the process died between the two, a dead letter that is sent second would be lost.
func TestDeadLetterIsSentBeforeFAILED(t *testing.T) {
	st := newSpy()
	letters := &deadLetters{}
	letters.onSend = func(context.Context, idem.DeadLetter) error {
		equal(t, "status while the dead letter is sent", get(t, st, testKey).Status, store.StatusStarted)
		equal(t, "settlements before", len(st.settled), 0)
		return nil
	}
	newEngine(t, st, idem.Config{}).Do(t.Context(),
		taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom))))
	equal(t, "dead letters", len(letters.sent), 1)
	equal(t, "status", get(t, st, testKey).Status, store.StatusFailed)
}

func TestTaskIsRetriedIfItsDeadLetterCannotBeSent(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errNetwork },
		"panic": func() error { panic(errNetwork) },
	} {
		t.Run(name, func(t *testing.T) {
			st := newSpy()
			letters := &deadLetters{}
			letters.onSend = func(context.Context, idem.DeadLetter) error {
				if len(letters.sent) == 1 {
					return fail()
				}
				return nil
			}
			e := newEngine(t, st, idem.Config{})
			h := returning("", idem.Permanent(errBoom))
			out := e.Do(t.Context(), taskWithDeadLetters(letters, h))
			wantKind(t, out, idem.Retry)
			wantErr(t, out.Err, idem.ErrDeadLetterNotSent, errNetwork, errBoom)
			entry := get(t, st, testKey)
			equal(t, "released", entry.Released(), true)
			equal(t, "attempts", entry.Attempts, 1)
			equal(t, "settled as failed", st.count(store.OpFail), 0)

			out = e.Do(t.Context(), taskWithDeadLetters(letters, h))
			wantKind(t, out, idem.DeadLettered)
			equal(t, "it says that none was sent", errors.Is(out.Err, idem.ErrDeadLetterNotSent), false)
			equal(t, "attempt", out.Attempt, 2)
			equal(t, "calls of the handler", h.calls, 2)
		})
	}
}

// While the dead letter can't be sent, the errors do not grow: each names the handler's last error once, and so
// does the letter in the end.
func TestErrorsOfALetterThatIsNotSentDoNotGrow(t *testing.T) {
	for name, handlerErr := range map[string]error{"permanent": idem.Permanent(errBoom), "exhausted": errBoom} {
		t.Run(name, func(t *testing.T) {
			st := newSpy()
			letters := &deadLetters{onSend: func(context.Context, idem.DeadLetter) error { return errNetwork }}
			e := newEngine(t, st, idem.Config{MaxAttempts: 3, RetryDelay: -1})
			task := taskWithDeadLetters(letters, returning("", handlerErr))
			var last string
			for attempt := range 12 {
				out := e.Do(t.Context(), task)
				wantKind(t, out, idem.Retry)
				entry := get(t, st, testKey)
				for what, text := range map[string]string{"error": out.Err.Error(), "failure": entry.Failure.Message} {
					if strings.Count(text, errBoom.Error()) != 1 || strings.Count(text, errNetwork.Error()) > 1 ||
						strings.Count(text, idem.ErrDeadLetterNotSent.Error()) > 1 {
						t.Fatalf("the %s of attempt %d is %q", what, attempt+1, text)
					}
				}
				if text := out.Err.Error(); attempt > 5 && text != last {
					t.Fatalf("attempt %d: %q; before: %q", attempt+1, text, last)
				}
				last = out.Err.Error()
			}
			letters.onSend = nil
			wantKind(t, e.Do(t.Context(), task), idem.DeadLettered)
			letter := letters.sent[len(letters.sent)-1]
			if n := strings.Count(letter.Failure.Message, errBoom.Error()); n != 1 {
				t.Errorf("the letter is for %q", letter.Failure.Message)
			}
		})
	}
}

// If the dead-letter sink does not answer, the key is released for the next delivery.
func TestUnansweredDeadLetterLeavesTimeToReleaseTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		letters := &deadLetters{onSend: func(ctx context.Context, _ idem.DeadLetter) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		st.onSettle = func(ctx context.Context, _ store.Settlement, land func() error) error {
			pass(100 * time.Millisecond)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return land()
		}
		out := newEngine(t, st, idem.Config{}).Do(until(t, 15*time.Second),
			taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom))))
		wantKind(t, out, idem.Retry)
		wantErr(t, out.Err, idem.ErrDeadLetterNotSent, context.DeadlineExceeded)
		equal(t, "released", ptr(get(t, st, testKey)).Released(), true)
	})
}

// A dead-letter sink may take longer than a short lease, which is extended meanwhile. Otherwise the letter
// would be sent again and again.
func TestDeadLetterMayTakeLongerThanALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSpy()
		letters := &deadLetters{onSend: func(ctx context.Context, _ idem.DeadLetter) error {
			pass(4 * time.Second)
			return ctx.Err()
		}}
		out := newEngine(t, st, idem.Config{Lease: time.Second}).Do(t.Context(),
			taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom))))
		wantKind(t, out, idem.DeadLettered)
	})
}

func TestPanicOfADeadLetterSinkIsReported(t *testing.T) {
	letters := &deadLetters{onSend: func(context.Context, idem.DeadLetter) error { panic("no queue") }}
	out := newEngine(t, newSpy(), idem.Config{}).Do(t.Context(),
		taskWithDeadLetters(letters, returning("", idem.Permanent(errBoom))))
	wantKind(t, out, idem.Retry)
	var p *idem.PanicError
	if !errors.As(out.Err, &p) || p.Value != "no queue" || !bytes.Contains(p.Stack, []byte("runletters_test.go")) {
		t.Errorf("error %v; want a PanicError with the stack", out.Err)
	}
}
