package layerproxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// wantOutage checks that keys are released for an hour after an outage, without an attempt.
func (f *fixture) wantOutage(says string, keys ...string) {
	f.Helper()
	for _, key := range keys {
		e := f.entry(key)
		if e.Attempts != 0 || !e.Released() || e.Failure.Code != store.CodeUnavailable ||
			!strings.Contains(e.Failure.Message, says) {
			f.Errorf("the entry of %s is %+v; want one of an outage", key, e)
		}
		if delay := e.RetryAt.Sub(e.UpdatedAt); delay < time.Hour-time.Second {
			f.Errorf("the key %s can be claimed after %v; want an hour", key, delay)
		}
	}
}

// An outage releases all records of the call, of which none is passed alone, nor in a later call.
func TestRaisedOutage(t *testing.T) {
	t.Parallel()
	const outage = "raise UnavailableError the bank is down: retry after 1h"
	for _, do := range []string{outage, "stream an outage", "stream an outage, named in the header",
		"report an outage, named in the header"} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "", append(several, partial)...)
			f.answers(event("a", "b:"+do, "c"), `{"batchItemFailures":[`+item(0)+`,`+item(1)+`,`+item(2)+`]}`)
			f.wantCalls("a#1 b#1 c#1")
			f.wantOutage("UnavailableError: the bank is down", "a", "b", "c")
		})
	}
	f := newFixture(t, "", several...)
	for range 3 { // more than the attempts of a record
		e := fails[*runtimeapi.FunctionError](f, event("a", "b:raise UnavailableError the bank is down"))
		if e.Type != "BatchError" || !strings.Contains(e.Message, "2 of 2 records") {
			t.Errorf("error %s: %s", e.Type, e.Message)
		}
	}
	f.answers(event("a", "b"), complete)
	f.wantCalls("a#1 b#1", "a#1 b#1", "a#1 b#1", "a#1 b#1")
}
