//go:build rest

package dynamostore_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// TestTTLDeletesByOurAttribute runs LocalStack's TTL worker, which uses the real time: it deletes the expired
// item and keeps the other.
func TestTTLDeletesByOurAttribute(t *testing.T) {
	url := awstest.LocalStack(t)
	longAgo := time.Now().Add(-2 * time.Hour)
	st := newStore(t, client(newWire(t), url), dynamostore.Config{Clock: func() time.Time { return longAgo }})
	for key, retention := range map[string]time.Duration{"past": time.Hour, "remembered": 24 * time.Hour} {
		res := st.Claim(t.Context(), []store.ClaimRequest{{Key: key, Owner: "owner", Lease: time.Minute,
			Retention: retention}})[0]
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

// runTTLWorker retries when another test creates or deletes a table meanwhile: LocalStack then fails with
// 500, because it iterates over a changing dictionary.
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
