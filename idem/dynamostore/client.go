package dynamostore

import (
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/awsclient"
)

// For how long DynamoDB may be silent in an attempt of a request, how often it is sent, and the bounds of the pauses between. The SDK's
// own defaults (no time-out, pauses of up to 20 s) would let one lost packet outlast a lease or an invocation.
const (
	AttemptTimeout = 2 * time.Second
	MaxAttempts    = 4
	FirstBackoff   = 25 * time.Millisecond
	MaxBackoff     = 300 * time.Millisecond
)

// NewClient returns a client whose retries fit the time that a function has. After an attempt that met with silence the next one has a
// new connection. An HTTP client of cfg's that is not the SDK's own, or has a time-out, keeps its bounds. The SDK repeats conditional
// writes too: that a write which had landed recognises itself is rule 5 of package idem.
func NewClient(cfg aws.Config, optFns ...func(*dynamodb.Options)) *dynamodb.Client {
	ours := func(o *dynamodb.Options) {
		o.HTTPClient = awsclient.New(cfg.HTTPClient, AttemptTimeout)
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

// backoff returns the pause before the attempt after the one given, which counts from 0: exponential, with full jitter.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(min(FirstBackoff<<min(attempt, 8), MaxBackoff) + 1), nil //nolint:gosec // jitter needs no cryptographic randomness
}
