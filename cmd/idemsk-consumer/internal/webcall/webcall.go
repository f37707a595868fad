// Package webcall calls a web service with the records of a call: it is a layercall.Runtime.
//
// The event is the body of a POST request, in the format of Lambda's event source for Kafka. The body of an
// answer with a status of 200 to 299 is that of a function: it names the records that failed. Any other
// status means that the call failed, and its body may be an error document of Lambda (see
// layercall.FunctionError):
//
//   - 429 and 503, and a service that can't be connected to: the attempt is not counted. The header
//     Retry-After delays the next one.
//   - 400, 413 and 422: a record that is alone in its call becomes a dead letter.
//   - All others, no answer in time, and a connection that is lost: the call has failed.
package webcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
)

// Client calls a web service. It is safe for concurrent use.
type Client struct {
	url     string
	timeout time.Duration
	http    *http.Client
}

// New returns a client of the service at a URL, which has the timeout to answer a call.
func New(address string, timeout time.Duration) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL of a web service: want http://127.0.0.1:8080/records", address)
	}
	return &Client{url: address, timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTime,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call is the layercall.Runtime.
func (c *Client) Call(ctx context.Context, event []byte) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, c.url, bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	// The transport would send a request with the header Idempotency-Key again when a connection is lost. The
	// service would run twice in one attempt.
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	if a, ok := idem.AttemptFrom(ctx); ok {
		req.Header.Set(headerKey, visible(a.Key))
		req.Header.Set(headerToken, strconv.FormatInt(a.Token, 10))
		req.Header.Set(headerAttempt, strconv.Itoa(a.Number))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, runtimeapi.MaxResponse+1))
	switch {
	case err != nil:
		return nil, c.lost(ctx, err)
	case len(answer) > runtimeapi.MaxResponse:
		return nil, idem.OutcomeUnknown(fmt.Errorf("the answer of %s exceeds %d bytes", c.url,
			runtimeapi.MaxResponse))
	case resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices:
		return answer, nil
	}
	return nil, c.refused(resp, answer)
}

// lost returns the error of a call without an answer.
func (c *Client) lost(ctx context.Context, err error) error {
	var op *net.OpError
	var late net.Error
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return idem.Unavailable(fmt.Errorf("the service is not reached, is it running? %w", err))
	case ctx.Err() == nil && errors.As(err, &late) && late.Timeout():
		return idem.OutcomeUnknown(fmt.Errorf("%s gave no answer within %s, and may still handle the records",
			c.url, c.timeout))
	}
	return idem.OutcomeUnknown(fmt.Errorf("the answer of %s is lost: %w", c.url, err))
}

// refused returns the error of an answer that says that the call failed.
func (c *Client) refused(resp *http.Response, answer []byte) error {
	failed := layercall.FunctionError(answer)
	err := fmt.Errorf("%s answered %s: %w", c.url, resp.Status, failed)
	if idem.IsPermanent(failed) || idem.IsUnavailable(failed) || idem.IsOutcomeUnknown(failed) {
		return err
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return idem.Unavailable(idem.RetryAfter(err, retryAfter(resp.Header.Get("Retry-After"))))
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return idem.Permanent(err)
	case http.StatusBadGateway, http.StatusGatewayTimeout: // of a proxy before the service
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
