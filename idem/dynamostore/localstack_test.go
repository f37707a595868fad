//go:build localstack

package dynamostore_test

import (
	"errors"
	"flag"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/testkit/awstest"
)

func TestRulesOnLocalStack(t *testing.T) {
	url := awstest.LocalStack(t)
	onBothPaths(t, func(t *testing.T, batched bool) {
		storetest.Run(t, func(t *testing.T) storetest.Harness {
			h, _ := harness(t, url, batched)
			return h
		})
	})
}

func TestAgreesWithMemoryOnLocalStack(t *testing.T) {
	url := awstest.LocalStack(t)
	fewer(t)
	onBothPaths(t, func(t *testing.T, batched bool) {
		h, _ := harness(t, url, batched)
		storetest.AgreesWith(t, func(*rapid.T) (under, oracle storetest.Harness) {
			empty(t, h.Store)
			clock := storetest.NewClock() // the store's clock continues from the previous history
			clock.Advance(h.Now().Sub(clock.Now()))
			mem := memstore.New(memstore.Config{Clock: clock.Now, MaxClockSkew: h.Skew})
			return h, storetest.Harness{
				Store: mem, Now: clock.Now, Advance: clock.Advance, Skew: h.Skew, Sweep: func(testing.TB) { mem.Sweep() },
			}
		})
	})
}

// fewer reduces the number of rapid's histories from 100, because LocalStack answers about 200 requests a second.
func fewer(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	if err := checks.Value.Set("15"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := checks.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
}

func empty(t *testing.T, st store.Store) {
	t.Helper()
	admin, ok := st.(store.Admin)
	if !ok {
		t.Fatalf("%T is no idem.Admin", st)
	}
	for rec, err := range admin.List(t.Context(), store.ListQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), rec.Key, rec.Token); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTTLDeletesByOurAttribute runs LocalStack's TTL worker, which uses the real time: it deletes the expired item and keeps
// the other.
func TestTTLDeletesByOurAttribute(t *testing.T) {
	url := awstest.LocalStack(t)
	longAgo := time.Now().Add(-2 * time.Hour)
	st := newStore(t, client(newWire(t), url), dynamostore.Config{Clock: func() time.Time { return longAgo }})
	for key, retention := range map[string]time.Duration{"past": time.Hour, "remembered": 24 * time.Hour} {
		res := st.Claim(t.Context(), []store.ClaimRequest{{Key: key, Owner: "owner", Lease: time.Minute, Retention: retention}})[0]
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		if errs := st.Settle(t.Context(), []store.Settlement{{
			Op: store.OpComplete, Key: key, Token: res.Entry.Token, Owner: "owner", Retention: retention,
		}}); errs != nil {
			t.Fatal(errs[0])
		}
	}
	runTTLWorker(t, url)
	if _, err := st.Get(t.Context(), "past"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("past its retention: %v; want ErrNotFound", err)
	}
	if _, err := st.Get(t.Context(), "remembered"); err != nil {
		t.Errorf("within its retention: %v", err)
	}
}

// runTTLWorker retries when another test creates or deletes a table meanwhile: LocalStack then fails with 500, because it
// iterates over a changing dictionary.
func runTTLWorker(t *testing.T, url string) {
	t.Helper()
	for range 50 {
		status, body := deleteExpired(t, url)
		if status == http.StatusOK {
			return
		}
		if !strings.Contains(body, "dictionary changed size during iteration") {
			t.Fatalf("the TTL worker: status %d, %s", status, body)
		}
	}
	t.Fatal("the TTL worker's walk over the tables was broken 50 times")
}

func deleteExpired(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+"/_aws/dynamodb/expired", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
