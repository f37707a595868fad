// Package s3 stores large dead letters in an S3 bucket. The main package of a function or a
// consumer process imports it:
//
//	func main() {
//		lambda.Start(handler, s3.DeadLetterValues())
//	}
//
// The variable IDEMSK_DEAD_LETTER_BUCKET then names the bucket, and perhaps a prefix of its objects:
// payments-dead-letters/ledger.
package s3

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/internal/awsclient"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// The attempts to store a letter, the time without progress that ends one, and the longest pause between them.
const (
	attempts       = 3
	attemptTimeout = 5 * time.Second
	maxBackoff     = 200 * time.Millisecond
)

// DeadLetterValues returns the option that adds the bucket. A record stays in its letter if it has at most
// s3.DefaultMaxValue bytes and, in one for a queue, at most half of IDEMSK_DEAD_LETTER_MAX_BYTES, and if the
// queue or the topic accepts the letter.
func DeadLetterValues() app.Option {
	return app.WithDeadLetterBucket(app.DeadLetterBucket{Check: check, Open: open})
}

func check(v *app.Vars, name, value string) {
	if bucket, prefix := split(value); !s3.ValidBucket(bucket) || len(prefix) > s3.MaxPrefix {
		v.Fail(name, value, "the name of a bucket, or NAME/PREFIX: payments-dead-letters/ledger")
	}
}

// split returns the bucket and the prefix of its objects, which is a folder.
func split(value string) (bucket, prefix string) {
	bucket, prefix, _ = strings.Cut(value, "/")
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	return bucket, prefix
}

func open(ctx context.Context, b *app.Base, next kafka.DeadLetters) (kafka.DeadLetters, error) {
	awsCfg, err := b.AWS(ctx)
	if err != nil {
		return nil, err
	}
	var cfg s3.Config
	cfg.Bucket, cfg.Prefix = split(b.Config.DeadLetterBucket)
	if b.Config.DeadLetterTopic == "" {
		cfg.MaxValue = min(s3.DefaultMaxValue, b.Config.DeadLetterMaxBytes/2) //nolint:mnd // in JSON a record takes more
	}
	return s3.New(next, NewClient(awsCfg), cfg)
}

// NewClient returns a client that gives up an attempt after 5 s without progress, and a request after 3
// attempts.
func NewClient(cfg aws.Config) *awss3.Client {
	return awss3.NewFromConfig(cfg, func(o *awss3.Options) {
		o.HTTPClient = awsclient.New(cfg.HTTPClient, attemptTimeout)
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = attempts, maxBackoff
		})
		o.UsePathStyle = o.BaseEndpoint != nil // LocalStack has no name for each bucket
	})
}
