package idem_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestClassifiedErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("handling: %w", err) }
	for _, tc := range []struct {
		name                   string
		err                    error
		permanent, unavailable bool
		delay                  time.Duration
	}{
		{"unmarked", errBoom, false, false, 0},
		{"permanent", idem.Permanent(errBoom), true, false, 0},
		{"permanent, wrapped", wrap(idem.Permanent(errBoom)), true, false, 0},
		{"unavailable, wrapped", wrap(idem.Unavailable(errBoom)), false, true, 0},
		{"later", wrap(idem.RetryAfter(errBoom, time.Minute)), false, false, time.Minute},
		{"later, negative", idem.RetryAfter(errBoom, -time.Minute), false, false, 0},
		{"unavailable, later", idem.Unavailable(wrap(idem.RetryAfter(errBoom, time.Minute))), false, true,
			time.Minute},
		{"the outermost mark counts: permanent", idem.Permanent(idem.RetryAfter(errBoom, time.Minute)), true,
			false, 0},
		{"the outermost mark counts: later", idem.RetryAfter(wrap(idem.Permanent(errBoom)), time.Minute),
			false, false, time.Minute},
		{"no result", idem.ResultUnavailable(errBoom), false, false, 0},
		{"unknown, unavailable, later", idem.OutcomeUnknown(idem.Unavailable(idem.RetryAfter(errBoom, time.Minute))),
			false, true, time.Minute},
		{"nil", nil, false, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			equal(t, "IsPermanent", idem.IsPermanent(tc.err), tc.permanent)
			equal(t, "IsUnavailable", idem.IsUnavailable(tc.err), tc.unavailable)
			equal(t, "RetryDelay", idem.RetryDelay(tc.err), tc.delay)
			if tc.err != nil {
				wantErr(t, tc.err, errBoom)
				if !strings.HasSuffix(tc.err.Error(), "boom") {
					t.Errorf("message %q; want the error's own", tc.err)
				}
			}
		})
	}
}

func TestMarkingNilReturnsNil(t *testing.T) {
	for name, err := range map[string]error{
		"Permanent": idem.Permanent(nil), "RetryAfter": idem.RetryAfter(nil, time.Second),
		"Unavailable": idem.Unavailable(nil), "ResultUnavailable": idem.ResultUnavailable(nil),
		"OutcomeUnknown": idem.OutcomeUnknown(nil),
	} {
		if err != nil {
			t.Errorf("%s(nil) is %v; want nil", name, err)
		}
	}
}

func TestTypedErrorMessages(t *testing.T) {
	for _, tc := range []struct {
		err   error
		is    error
		wants []string
	}{
		{
			&store.FencedError{Key: testKey, Token: 7,
				Current: store.Entry{Status: store.StatusCompleted, Token: 8, Source: "payments-1@5"}},
			store.ErrFenced, []string{testKey, "token 7", "COMPLETED with token 8", "payments-1@5"},
		},
		{
			&store.FencedError{Key: testKey, Token: 7,
				Current: store.Entry{Status: store.StatusStarted, Token: 8}},
			store.ErrFenced, []string{"STARTED with token 8", "an unknown source"},
		},
		{&store.FencedError{Key: testKey, Token: 7}, store.ErrFenced, []string{testKey, "token 7", "gone"}},
		{
			&idem.AlreadyFailedError{Key: testKey, Token: 7, Failure: store.Failure{
				Code: "permanent", Message: "no such account", At: time.UnixMilli(1_790_000_000_000),
			}},
			nil, []string{testKey, "token 7", "2026-09-21T14:13:20Z", "permanent: no such account"},
		},
		{&idem.PanicError{Value: errBoom}, errBoom, []string{"panicked: boom"}},
	} {
		err := fmt.Errorf("wrapped: %w", tc.err)
		if tc.is != nil {
			wantErr(t, err, tc.is)
		}
		for _, want := range tc.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not contain %q", err, want)
			}
		}
	}
}

func TestPanicErrorWithoutAnErrorUnwrapsToNil(t *testing.T) {
	if err := errors.Unwrap(&idem.PanicError{Value: "no error"}); err != nil {
		t.Errorf("unwrapped to %v", err)
	}
}
