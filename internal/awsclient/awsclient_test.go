package awsclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	limit = 500 * time.Millisecond
	soon  = 5 * time.Second
)

// behindProxy starts a service that answers with the requested number of bytes, and returns a client that
// connects through a proxy.
func behindProxy(t *testing.T) (client aws.HTTPClient, proxy *faultproxy.Proxy, url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		size, _ := strconv.Atoi(string(body))
		if _, werr := w.Write(make([]byte, size)); err != nil || (werr != nil && r.Context().Err() == nil) {
			t.Error(err, werr)
		}
	}))
	t.Cleanup(server.Close)
	proxy, url = faultproxy.StartURL(t, server.URL)
	t.Cleanup(func() { proxy.Existing(faultproxy.Reset) })
	return awsclient.New(nil, limit), proxy, url
}

// ask requests size bytes.
func ask(ctx context.Context, client aws.HTTPClient, url string, size int) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(strconv.Itoa(size)))
	if err != nil {
		return nil, err
	}
	return client.Do(r)
}

// get requests size bytes and checks that they arrive.
func get(ctx context.Context, client aws.HTTPClient, url string, size int) error {
	resp, err := ask(ctx, client, url, size)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && len(body) != size {
		err = errors.New("the answer is short")
	}
	return err
}

// idle makes a client keep idle connections.
func idle(t *testing.T, client aws.HTTPClient, proxy *faultproxy.Proxy, url string) {
	t.Helper()
	const many = 8
	for done := make(chan error); proxy.Connections() < many; {
		for range many {
			go func() { done <- get(t.Context(), client, url, 10) }()
		}
		for range many {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}

func wantTimeout(t *testing.T, err error) {
	t.Helper()
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, context.Canceled) {
		t.Errorf("%v, want a time-out", err)
	}
}

func TestSilentConnectionClosesTheIdleOnes(t *testing.T) {
	client, proxy, url := behindProxy(t)
	idle(t, client, proxy, url)
	proxy.Existing(faultproxy.Silent)
	begun := time.Now()
	wantTimeout(t, get(t.Context(), client, url, 10))
	if err := get(t.Context(), client, url, 10); err != nil {
		t.Errorf("the next attempt: %v, want it made over a new connection", err)
	}
	proxy.Existing(faultproxy.Silent)
	proxy.New(faultproxy.Silent)
	for range 2 {
		wantTimeout(t, get(t.Context(), client, url, 10))
	}
	if took := time.Since(begun); took > soon {
		t.Errorf("it took %v, want at most %v", took, soon)
	}
}

// A slow answer is not aborted while data arrives.
func TestLargeAnswerPassesASlowNetwork(t *testing.T) {
	client, proxy, url := behindProxy(t)
	const rate = 2 << 20
	proxy.Slow(rate)
	begun := time.Now()
	if err := get(t.Context(), client, url, 2*rate); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < 2*limit {
		t.Errorf("it took %v, which is not long", took)
	}
}

func TestIncompleteAnswerIsATimeout(t *testing.T) {
	client, proxy, url := behindProxy(t)
	const size = 8 << 20
	proxy.Slow(size)
	resp, err := ask(t.Context(), client, url, size)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, size/16)); err != nil {
		t.Fatal(err)
	}
	proxy.Existing(faultproxy.Silent)
	_, err = io.ReadAll(resp.Body)
	wantTimeout(t, err)
}

// A heartbeat has less time than an attempt. The end of this time also counts as silence.
func TestDeadlineOfTheCallerClosesTheIdleConnections(t *testing.T) {
	client, proxy, url := behindProxy(t)
	idle(t, client, proxy, url)
	proxy.Existing(faultproxy.Silent)
	ctx, cancel := context.WithTimeout(t.Context(), limit/5)
	defer cancel()
	if err := get(ctx, client, url, 10); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want that the caller's time was up", err)
	}
	if err := get(t.Context(), client, url, 10); err != nil {
		t.Errorf("the next attempt: %v, want it made over a new connection", err)
	}
}

func TestCancellationByTheCallerIsNoTimeout(t *testing.T) {
	client, proxy, url := behindProxy(t)
	proxy.New(faultproxy.Silent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := get(ctx, client, url, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want what the caller did", err)
	}
}

// clientFunc is a user's own HTTP client.
type clientFunc func(r *http.Request) (*http.Response, error)

func (f clientFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// A user's own HTTP client, and an SDK client with a timeout, keep their limits. Request bodies are sent
// whole.
func TestClientWithItsOwnLimitsKeepsThem(t *testing.T) {
	_, proxy, url := behindProxy(t)
	base := awshttp.NewBuildableClient().WithTimeout(3 * limit)
	ours := clientFunc(func(r *http.Request) (*http.Response, error) {
		if _, bounded := r.Context().Deadline(); bounded || r.Context().Done() != nil {
			t.Error("the request was bounded")
		}
		return base.Do(r)
	})
	for _, client := range []aws.HTTPClient{awsclient.New(ours, limit), awsclient.New(base, limit)} {
		if err := get(context.Background(), client, url, 10); err != nil {
			t.Error(err)
		}
		proxy.Existing(faultproxy.Silent)
		begun := time.Now()
		wantTimeout(t, get(context.Background(), client, url, 10))
		if took := time.Since(begun); took < 2*limit {
			t.Errorf("given up after %v, before its own time-out", took)
		}
	}
}

func TestHTTP2IsNotUsed(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 {
			t.Errorf("%s was used", r.Proto)
		}
		w.WriteHeader(http.StatusOK)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	base := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	})
	if err := get(t.Context(), awsclient.New(base, limit), server.URL, 0); err != nil {
		t.Error(err)
	}
}
