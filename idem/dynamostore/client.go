package dynamostore

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// How long one request may take, how often it is sent, and the bounds of the pauses between. The SDK's own defaults (no
// time-out, pauses of up to 20 s) would let one lost packet outlast a lease or an invocation.
const (
	AttemptTimeout = 2 * time.Second
	MaxAttempts    = 4
	FirstBackoff   = 25 * time.Millisecond
	MaxBackoff     = 300 * time.Millisecond
)

// NewClient returns a client whose retries fit the time that a function has. The SDK repeats conditional writes too: that a
// write which had landed recognises itself is rule 5 of package idem.
func NewClient(cfg aws.Config, optFns ...func(*dynamodb.Options)) *dynamodb.Client {
	ours := func(o *dynamodb.Options) {
		o.HTTPClient = wholeBody{withTimeout(cfg.HTTPClient)}
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = MaxAttempts
			r.Backoff = retry.BackoffDelayerFunc(backoff)
			r.Retryables = append(r.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary { // the SDK does not
				if causeOf(err) == contention {
					return aws.TrueTernary
				}
				return aws.UnknownTernary
			}))
		})
	}
	return dynamodb.NewFromConfig(cfg, append([]func(*dynamodb.Options){ours}, optFns...)...)
}

// maxIdleConns is how many connections are kept for the next requests: as many as a batch has under way at once. The SDK
// keeps 10.
const maxIdleConns = 64

// withTimeout bounds the time of an attempt, unless the caller brought a client of their own or has bounded it.
func withTimeout(c aws.HTTPClient) aws.HTTPClient {
	if c == nil {
		c = awshttp.NewBuildableClient()
	}
	if b, ok := c.(*awshttp.BuildableClient); ok && b.GetTimeout() == 0 {
		return b.WithTimeout(AttemptTimeout).WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = maxIdleConns })
	}
	return c
}

// wholeBody sends a request's body from memory. The SDK closes its own as soon as the head of the reply is there; where the
// reply is fast, that is before net/http has seen the body's end, and net/http then closes the connection under the reply:
// the write has landed, its reply is lost. https://github.com/aws/aws-sdk-go-v2/issues/2737
type wholeBody struct{ next aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c wholeBody) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body := make([]byte, max(0, r.ContentLength))
		_, err := io.ReadFull(r.Body, body)
		if r.ContentLength < 0 { // not known
			body, err = io.ReadAll(r.Body)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the request's body: %w", err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return c.next.Do(r)
}

// backoff returns the pause before the attempt after the one given, which counts from 0: exponential, with full jitter.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(min(FirstBackoff<<min(attempt, 8), MaxBackoff) + 1), nil //nolint:gosec // jitter needs no cryptographic randomness
}
