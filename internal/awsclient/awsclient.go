// Package awsclient is the HTTP client of the AWS SDK's clients. It limits the time without data in an
// attempt; without a limit a dead connection could use up an invocation. A large answer may take longer as
// long as data arrives. Data that the kernel has accepted counts as sent.
package awsclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/idemsk/idemsk/internal/network/silence"
)

// maxIdleConns is the number of idle connections, as many as a batch has concurrent requests. The SDK's
// default is 10.
const maxIdleConns = 64

// New returns a client whose attempts fail after limit without data, with an error that the SDK retries. It
// then closes the idle connections too, because a network fault usually affects all of them.
//
// The client has base's settings if base is nil or the SDK's own. Any other client, or one with a timeout, is
// returned unchanged.
func New(base aws.HTTPClient, limit time.Duration) aws.HTTPClient {
	if base == nil {
		base = awshttp.NewBuildableClient()
	}
	own, ok := base.(*awshttp.BuildableClient)
	if !ok || own.GetTimeout() != 0 {
		return &client{http: base}
	}
	transport := own.GetTransport()
	transport.MaxIdleConnsPerHost = maxIdleConns
	withoutHTTP2(transport)
	asIs := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client{http: &http.Client{Transport: transport, CheckRedirect: asIs}, limit: limit,
		closeIdle: transport.CloseIdleConnections}
}

// withoutHTTP2 makes a transport use HTTP/1.1, because the next attempt would use a silent HTTP/2 connection
// again. The SDK's transport enables HTTP/2 when it is copied.
func withoutHTTP2(t *http.Transport) {
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = make(map[string]func(string, *tls.Conn) http.RoundTripper)
	if t.TLSClientConfig != nil {
		t.TLSClientConfig.NextProtos = nil
	}
}

// client implements aws.HTTPClient.
type client struct {
	http      aws.HTTPClient
	limit     time.Duration // 0: none
	closeIdle func()
}

// Do implements aws.HTTPClient.
func (c *client) Do(r *http.Request) (*http.Response, error) {
	body, err := wholeBody(r)
	if err != nil {
		return nil, err
	}
	if c.limit == 0 {
		if body != nil {
			r.Body = io.NopCloser(body)
		}
		return c.http.Do(r)
	}
	a := &attempt{client: c, watch: silence.Start(r.Context(), c.limit), to: r.Method + " " + r.URL.Host}
	r = r.WithContext(a.watch.Context())
	if body != nil {
		r.Body = io.NopCloser(a.reading(body))
	}
	resp, err := c.http.Do(r)
	if err != nil {
		a.watch.Stop()
		return nil, a.failed(err)
	}
	a.body = resp.Body
	resp.Body = a
	return resp, nil
}

// wholeBody reads the body of a request into memory. The SDK closes its own body when the header of the reply
// arrives. If that is before net/http has read the end of the body, net/http closes the connection, and the
// reply to a successful write is lost. https://github.com/aws/aws-sdk-go-v2/issues/2737
func wholeBody(r *http.Request) (io.Reader, error) {
	if r.Body == nil {
		return nil, nil //nolint:nilnil // no body
	}
	// does not grow if the length is known
	body := bytes.NewBuffer(make([]byte, 0, max(0, r.ContentLength)+bytes.MinRead))
	if _, err := body.ReadFrom(r.Body); err != nil {
		return nil, fmt.Errorf("reading the request's body: %w", err)
	}
	return body, nil
}

// attempt is an active request and the body of its answer.
type attempt struct {
	*client
	watch *silence.Watch
	to    string
	body  io.ReadCloser
}

// failed returns the error of an attempt that ended with err.
func (a *attempt) failed(err error) error {
	err = a.watch.Err(err)
	silent := (*silence.Error)(nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded): // the caller's time was up, which can be less than ours
		a.closeIdle()
	case errors.As(err, &silent):
		a.closeIdle()
		return fmt.Errorf("%s: %w (is there a way to the service: in a VPC an endpoint or a NAT, and a security group that lets it through?)", a.to, err)
	}
	return err
}

// Read implements io.Reader.
func (a *attempt) Read(p []byte) (int, error) {
	n, err := a.reading(a.body).Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = a.failed(err)
	}
	return n, err
}

// Close implements io.Closer.
func (a *attempt) Close() error {
	defer a.watch.Stop()
	return a.body.Close()
}

// reading returns a reader of r that reports each read as progress.
func (a *attempt) reading(r io.Reader) io.Reader { return progress{r, a.watch} }

type progress struct {
	io.Reader
	watch *silence.Watch
}

// maxRead is the maximum size of one read. A chunk of an answer would be read until a larger buffer is full,
// without a report of progress.
const maxRead = 32 << 10

// Read implements io.Reader.
func (p progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b[:min(len(b), maxRead)])
	if n > 0 {
		p.watch.Heard()
	}
	return n, err
}
