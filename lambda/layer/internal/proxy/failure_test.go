package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/runtimeapi"
)

// A field of an item that can't be read fails no other record, and the dead letter names it.
func TestUnreadableFieldsOfAFailureAreIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", partial)
	f.answers(event("a", "b:fail badly"), `{"batchItemFailures":[`+item(1)+`]}`)
	f.answers(event("a", "b:fail badly"), complete)
	f.wantCalls("a#1 b#1", "b#2")
	if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], "of another type: permanent, unavailable, error, retryAfterMs") {
		t.Errorf("dead letters %q", letters)
	}
}

// A record of an outage is released, and its attempt is given back. A failure that is said to be both permanent and an outage is neither.
func TestOutageOfARecord(t *testing.T) {
	t.Parallel()
	for _, claim := range []string{"key", "partition"} {
		t.Run("claims by "+claim, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", partial, "IDEMSK_CLAIM="+claim)
			f.answers(event("a", "b:fail as an outage", "c:fail as both", "d"), `{"batchItemFailures":[`+item(1)+`,`+item(2)+`,`+item(3)+`]}`)
			f.wantStatus(store.StatusCompleted, "a", "d")
			f.wantOutage("the bank is down", "b")
			if e := f.entry("c"); e.Attempts != 1 || !e.Released() || !strings.Contains(e.Failure.Message, "a failure can't be both") {
				t.Errorf("the entry of c is %+v", e)
			}
			if letters := f.letters(); len(letters) != 0 {
				t.Errorf("dead letters %q", letters)
			}
		})
	}
}

// wantOutage checks that keys are released for an hour after an outage, without an attempt.
func (f *fixture) wantOutage(says string, keys ...string) {
	f.Helper()
	for _, key := range keys {
		e := f.entry(key)
		if e.Attempts != 0 || !e.Released() || e.Failure.Code != store.CodeUnavailable || !strings.Contains(e.Failure.Message, says) {
			f.Errorf("the entry of %s is %+v; want one of an outage", key, e)
		}
		if delay := e.RetryAt.Sub(e.UpdatedAt); delay < time.Hour-time.Second {
			f.Errorf("the key %s can be claimed after %v; want an hour", key, delay)
		}
	}
}

// An error of a call says nothing of its records but in a call of one: then a permanent one makes a dead letter at once.
func TestRaisedPermanentError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", partial)
	poison := "b:raise com.example.App$PermanentException the account is closed"
	f.answers(event("a", poison, "c"), complete)
	f.wantCalls("a#1 b#1 c#1", "a#1", "b#1", "c#1")
	f.wantStatus(store.StatusCompleted, "a", "c")
	f.wantStatus(store.StatusFailed, "b")
	if e := f.entry("b"); e.Attempts != 1 || e.Failure.Code != store.CodePermanent {
		t.Errorf("the entry is %+v", e)
	}
	if letters := f.letters(); len(letters) != 1 || !strings.Contains(letters[0], "the account is closed") {
		t.Errorf("dead letters %q", letters)
	}
}

// An outage releases all records of the call, of which none is passed alone, nor in a later call.
func TestRaisedOutage(t *testing.T) {
	t.Parallel()
	const outage = "raise UnavailableError the bank is down: retry after 1h"
	for _, tc := range [][2]string{{outage, "key"}, {outage, "partition"}, {"stream an outage", "key"}} {
		do, claim := tc[0], tc[1]
		t.Run(do+", claims by "+claim, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", partial, "IDEMSK_CLAIM="+claim)
			f.answers(event("a", "b:"+do, "c"), `{"batchItemFailures":[`+item(0)+`,`+item(1)+`,`+item(2)+`]}`)
			f.wantCalls("a#1 b#1 c#1")
			f.wantOutage("UnavailableError: the bank is down", "a", "b", "c")
		})
	}
	f := newFixture(t, "")
	for range 3 { // more than the attempts of a record
		e := fails[*runtimeapi.FunctionError](f, event("a", "b:raise UnavailableError the bank is down"))
		if e.Type != "BatchError" || !strings.Contains(e.Message, "2 of 2 records") {
			t.Errorf("error %s: %s", e.Type, e.Message)
		}
	}
	f.answers(event("a", "b"), complete)
	f.wantCalls("a#1 b#1", "a#1 b#1", "a#1 b#1", "a#1 b#1")
}
