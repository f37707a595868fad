package dynamostore

import (
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/internal/awsclient"
)

// The timeout of one attempt of a request, the number of attempts, and the bounds of the backoff. With the
// SDK's defaults (no timeout, backoff of up to 20 s) one lost packet can outlast a lease or an invocation.
const (
	AttemptTimeout = 2 * time.Second
	MaxAttempts    = 4
	FirstBackoff   = 25 * time.Millisecond
	MaxBackoff     = 300 * time.Millisecond
)

// NewClient returns a client whose timeouts and retries fit the duration of an invocation. After an attempt
// that timed out, the next attempt uses a new connection. If cfg has an HTTP client that is not the SDK's, or
// that has a timeout, its settings stay. The SDK also retries conditional writes. If the first attempt
// succeeded and only its reply was lost, the retry recognises its own write (rule 5 of package store).
func NewClient(cfg aws.Config, optFns ...func(*dynamodb.Options)) *dynamodb.Client {
	ours := func(o *dynamodb.Options) {
		o.HTTPClient = awsclient.New(cfg.HTTPClient, AttemptTimeout)
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts = MaxAttempts
			r.Backoff = retry.BackoffDelayerFunc(backoff)
			r.Retryables = append(r.Retryables, retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
				// the SDK does not retry these
				if causeOf(err) == contention {
					return aws.TrueTernary
				}
				return aws.UnknownTernary
			}))
		})
	}
	return dynamodb.NewFromConfig(cfg, append([]func(*dynamodb.Options){ours}, optFns...)...)
}

// backoff returns the pause after the given attempt, counted from 0: exponential, with full jitter.
func backoff(attempt int, _ error) (time.Duration, error) {
	return rand.N(min(FirstBackoff<<min(attempt, 8), MaxBackoff) + 1), nil //nolint:gosec // jitter needs no cryptographic randomness
}
