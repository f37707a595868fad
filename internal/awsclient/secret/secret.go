// Package secret reads secrets of AWS Secrets Manager.
package secret

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/awsclient"
)

// Timeout is the maximum duration of a read, and attempts the maximum number of its requests.
const (
	Timeout  = 5 * time.Second
	attempts = 3
)

// Reader reads one secret. It is safe for concurrent use.
type Reader struct {
	ARN    string
	client *secretsmanager.Client
}

// New returns a reader of the secret with an ARN.
func New(cfg aws.Config, arn string) *Reader {
	return &Reader{ARN: arn, client: secretsmanager.NewFromConfig(cfg, func(o *secretsmanager.Options) {
		o.HTTPClient = awsclient.New(cfg.HTTPClient, dynamostore.AttemptTimeout)
		o.Retryer = retry.AddWithMaxAttempts(o.Retryer, attempts)
	})}
}

// Read returns the secret's text, within Timeout, or "" if the secret is binary. Errors do not contain any
// part of the secret.
func (r *Reader) Read(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	out, err := r.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &r.ARN})
	if err != nil {
		return "", fmt.Errorf("reading the secret %s (the caller needs secretsmanager:GetSecretValue on it, kms:Decrypt on its key, "+
			"and in a VPC an endpoint for Secrets Manager or a route to the Internet): %w", r.ARN, err)
	}
	return aws.ToString(out.SecretString), nil
}
