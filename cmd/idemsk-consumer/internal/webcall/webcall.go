// Package webcall calls a web service with the records of a call: it is a layercall.Runtime.
//
// The event is the body of a POST request, in the format of Lambda's event source for Kafka. The body of an
// answer with a status of 200 to 299 is that of a function: it names the records that failed. Any other
// status means that the call failed, and its body may be an error document of Lambda (see
// layercall.FunctionError), which counts more than the status:
//
//   - 429, and a service to which no connection can be made: the service has not handled the records, and the
//     attempt is not counted. The header Retry-After delays the next one.
//   - 503: as 429, but a proxy sends it too when the service's connection ends in a request. So the effects may
//     have taken place.
//   - 400, 413 and 422: a record that is alone in its call becomes a dead letter.
//   - All others, no answer in time, and a connection that is lost: the call has failed. After 408, 502, 504,
//     and those from 520, which are a proxy's, and without an answer, the effects may have taken place.
//
// Errors have neither the path, the query and the user of the URL nor the body of an answer, except the fields
// of an error document: they are logged, and stored in entries and dead letters.
package webcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/internal/layercall"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// The headers of a request that has one record.
const (
	headerKey     = "Idempotency-Key" // of the record, as it is stored
	headerToken   = "Idemsk-Token"    //nolint:gosec // no credential: the fencing token
	headerAttempt = "Idemsk-Attempt"
)

const (
	// idleTime is how long a connection is kept for the next call. It is shorter than the time after which
	// servers close one (Node.js and uvicorn: 5 s), because a call on such a connection fails.
	idleTime = time.Second
	maxIdle  = 1000 // connections that are kept: more than there are calls at once
	// connectTime is the maximum time for a connection, and for its TLS handshake.
	connectTime = 5 * time.Second
	// firstOfProxies is the first status that only proxies use, for what they make of a service.
	firstOfProxies = 520
)

// Client calls a web service. It is safe for concurrent use.
type Client struct {
	url     *url.URL
	service string // the URL in errors: its scheme and host
	timeout time.Duration
	// http sends a request once, and follows no redirect. Its errors do not have the URL.
	http *http.Transport
}

// New returns a client of the service at a URL, which has the timeout to answer a call.
func New(address string, timeout time.Duration) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("it is no URL of a web service: want http://127.0.0.1:8080/records, for example")
	}
	service := url.URL{Scheme: u.Scheme, Host: u.Host}
	return &Client{url: u, service: service.String(), timeout: timeout, http: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTime,
		DialContext:         (&net.Dialer{Timeout: connectTime}).DialContext,
		TLSHandshakeTimeout: connectTime, ForceAttemptHTTP2: true,
	}}, nil
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call is the layercall.Runtime.
func (c *Client) Call(ctx context.Context, event []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var connected atomic.Bool // the request may have been sent
	limited = httptrace.WithClientTrace(limited,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := c.request(limited, event)
	if err != nil {
		return nil, c.unreached(err)
	}
	resp, err := c.http.RoundTrip(req)
	switch {
	case err != nil && (!connected.Load() || neverProcessed(err)):
		return nil, c.unreached(err)
	case err != nil:
		return nil, c.lost(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, runtimeapi.MaxResponse+1))
	switch {
	case err != nil:
		return nil, c.lost(ctx, err)
	case len(answer) > runtimeapi.MaxResponse:
		return nil, idem.OutcomeUnknown(fmt.Errorf("the answer of %s exceeds %d bytes", c.service,
			runtimeapi.MaxResponse))
	case resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices && !layercall.IsError(answer):
		return answer, nil
	}
	return nil, c.refused(resp, answer)
}

// request returns the request of a call.
func (c *Client) request(ctx context.Context, event []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.service, bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	// The transport would send a request with the header Idempotency-Key again when a connection is lost. The
	// service would run twice in one attempt.
	req.GetBody = nil
	req.URL = c.url
	req.Header.Set("Content-Type", "application/json")
	if c.url.User != nil {
		password, _ := c.url.User.Password()
		req.SetBasicAuth(c.url.User.Username(), password)
	}
	if a, ok := idem.AttemptFrom(ctx); ok {
		req.Header.Set(headerKey, visible(a.Key))
		req.Header.Set(headerToken, strconv.FormatInt(a.Token, 10))
		req.Header.Set(headerAttempt, strconv.Itoa(a.Number))
	}
	return req, nil
}

// unreached returns the error of a call for which there was no connection, so that nothing was sent.
func (c *Client) unreached(err error) error {
	return idem.Unavailable(fmt.Errorf("the service at %s is not reached, is it running? %w", c.service, err))
}

// lost returns the error of a call without an answer.
func (c *Client) lost(ctx context.Context, err error) error {
	var late net.Error
	if ctx.Err() == nil && errors.As(err, &late) && late.Timeout() {
		return idem.OutcomeUnknown(fmt.Errorf("%s gave no answer within %s, and may still handle the records",
			c.service, c.timeout))
	}
	return idem.OutcomeUnknown(fmt.Errorf("the answer of %s is lost: %w", c.service, withoutAnswer(err)))
}

// refused returns the error of an answer that says that the call failed.
func (c *Client) refused(resp *http.Response, answer []byte) error {
	failed := layercall.FunctionError("", answer)
	err := fmt.Errorf("%s answered %d %s: %w", c.service, resp.StatusCode, http.StatusText(resp.StatusCode), failed)
	if idem.IsPermanent(failed) || idem.IsUnavailable(failed) || idem.IsOutcomeUnknown(failed) {
		return err
	}
	after := retryAfter(resp.Header.Get("Retry-After"))
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests:
		return idem.Unavailable(idem.RetryAfter(err, after))
	case code == http.StatusServiceUnavailable:
		return idem.OutcomeUnknown(idem.Unavailable(idem.RetryAfter(err, after)))
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge,
		code == http.StatusUnprocessableEntity:
		return idem.Permanent(err)
	case code == http.StatusRequestTimeout, code == http.StatusBadGateway,
		code == http.StatusGatewayTimeout, code >= firstOfProxies:
		return idem.OutcomeUnknown(err)
	}
	return err
}

// retryAfter returns the delay of a header Retry-After: seconds, or a time.
func retryAfter(header string) (after time.Duration) {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		after = time.Until(at)
	}
	return max(0, min(after, layercall.MaxRetryAfter))
}

// visible returns a key as the value of a header: bytes other than visible ASCII, and the percent sign, are
// written as in a URL.
func visible(key string) string {
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; c > ' ' && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
