package dynamostore_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

const (
	shortLimit = time.Second      // timeout of an attempt in these tests
	soon       = 10 * time.Second // above the time of an attempt and a new connection
)

func sdkConfig(client aws.HTTPClient, at string) aws.Config {
	return aws.Config{Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), HTTPClient: client,
		BaseEndpoint: &at}
}

// behindProxy returns a store whose client connects through a proxy, a store without a proxy, and a function
// that makes the client hold more idle connections than it makes attempts.
func behindProxy(t *testing.T, client aws.HTTPClient) (st, direct *dynamostore.Store, proxy *faultproxy.Proxy,
	fillUp func()) {
	t.Helper()
	srv := fake(t)
	direct = newStore(t, dynamostore.NewClient(sdkConfig(nil, srv.URL())), dynamostore.Config{})
	proxy, at := faultproxy.StartURL(t, srv.URL())
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
	c := dynamostore.NewClient(sdkConfig(client, at))
	st, err := dynamostore.New(c, dynamostore.Config{Table: direct.Table()})
	if err != nil {
		t.Fatal(err)
	}
	return st, direct, proxy, func() {
		t.Helper()
		for before := proxy.Connections(); proxy.Connections() < before+2*dynamostore.MaxAttempts; {
			var all sync.WaitGroup
			for range 4 * dynamostore.MaxAttempts {
				all.Go(func() {
					if _, err := st.Get(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
	}
}

// All connections of a client fail at once: their host has failed, or the sandbox was frozen so long that a
// NAT gateway dropped them.
func TestOperationSucceedsOverANewConnection(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]faultproxy.Fault{"reset": faultproxy.Reset,
		"silent": faultproxy.Silent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, _, proxy, fillUp := behindProxy(t, awsclient.New(nil, shortLimit))
			claims := claimsFor(60, 1)
			var ss []store.Settlement
			fillUp()
			proxy.Existing(fault)
			faultproxy.Within(t, soon, "claims",
				func(context.Context) { ss = completions(mustClaim(t, st, claims, store.Claimed)) })
			fillUp()
			proxy.Existing(fault)
			faultproxy.Within(t, soon, "completions", func(ctx context.Context) {
				if errs := st.Settle(ctx, ss); errs != nil {
					t.Error(errors.Join(errs...))
				}
			})
			fillUp()
			proxy.Existing(fault)
			faultproxy.Within(t, soon, "duplicates",
				func(context.Context) { mustClaim(t, st, claimsFor(60, 2), store.ClaimCompleted) })
		})
	}
}

// No connection gets an answer. The error comes after the last attempt. The store works again when the
// network is back.
func TestSilentDynamoDBIsAnError(t *testing.T) {
	t.Parallel()
	st, _, proxy, fillUp := behindProxy(t, awsclient.New(nil, shortLimit))
	fillUp()
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	faultproxy.Within(t, soon, "a claim", func(ctx context.Context) {
		err := st.Claim(ctx, claimsFor(1, 1))[0].Err
		if err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no answer for") {
			t.Errorf("%v, want an error that no answer came", err)
		}
	})
	for _, n := range []int{1, 2} {
		faultproxy.Within(t, soon, "completions", func(ctx context.Context) {
			for _, err := range st.Settle(ctx, completions(make([]store.ClaimResult, n))) {
				if err == nil || errors.Is(err, store.ErrFenced) || !strings.Contains(err.Error(), "no answer for") {
					t.Errorf("%d completions: %v, want an error that no answer came", n, err)
				}
			}
		})
	}
	proxy.New(faultproxy.None)
	faultproxy.Within(t, soon, "a claim",
		func(context.Context) { mustClaim(t, st, claimsFor(1, 1), store.Claimed) })
}

// A heartbeat that times out leaves time for another heartbeat.
func TestHandlerKeepsItsLeaseWhenConnectionsFail(t *testing.T) {
	st, direct, proxy, fillUp := behindProxy(t, nil)
	storetest.KeepsLease(t, st, direct, func() {
		fillUp()
		proxy.Existing(faultproxy.Silent)
	})
}

// largest is an HTTP client that records the size of the largest request.
type largest struct {
	aws.HTTPClient
	mu    sync.Mutex
	bytes int64
}

func (l *largest) Do(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.bytes = max(l.bytes, r.ContentLength)
	l.mu.Unlock()
	return l.HTTPClient.Do(r)
}

// A request fits a network of 6 Mbit/s within the time of an attempt, whatever the size of results. A
// response may take longer, because the timeout counts only silence.
func TestBatchOfLargeResultsPassesASlowNetwork(t *testing.T) {
	t.Parallel()
	const (
		passes = 6_000_000 / 8 * int64(dynamostore.AttemptTimeout/time.Second)
		limit  = 6 * time.Second // even a busy machine begins to answer earlier
		rate   = 3 << 19         // bytes a second: all results together take longer than limit
	)
	requests := &largest{HTTPClient: awsclient.New(nil, time.Minute)}
	st, _, proxy, _ := behindProxy(t, requests)
	ss := completions(mustClaim(t, st, claimsFor(dynamostore.MaxBatchSize, 1), store.Claimed))
	for i := range ss {
		ss[i].Result = bytes.Repeat([]byte("r"), store.MaxResult)
	}
	if errs := st.Settle(t.Context(), ss); errs != nil {
		t.Fatal(errs[0])
	}
	if requests.bytes > passes {
		t.Errorf("a request has %d bytes, want at most %d", requests.bytes, passes)
	}
	requests.HTTPClient = awsclient.New(nil, limit)
	proxy.Slow(rate)
	begun := time.Now()
	for _, res := range mustClaim(t, st, claimsFor(len(ss), 2), store.ClaimCompleted) {
		if len(res.Entry.Result) != store.MaxResult {
			t.Fatalf("a result of %d bytes", len(res.Entry.Result))
		}
	}
	if took := time.Since(begun); took < limit {
		t.Errorf("it took %v, which is not long", took)
	}
}
