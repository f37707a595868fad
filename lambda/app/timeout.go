package app

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// attemptTimeout bounds one attempt of a request to SQS or Secrets Manager, as dynamostore.AttemptTimeout does for DynamoDB. The
// SDK bounds none: a service that can't be reached, as in a VPC without its endpoint, would take all the time of an invocation.
const attemptTimeout = 2 * time.Second

// withTimeout bounds the time of an attempt, unless it is bounded already or the client is not the SDK's own.
func withTimeout(c aws.HTTPClient) aws.HTTPClient {
	if c == nil {
		c = awshttp.NewBuildableClient()
	}
	if b, ok := c.(*awshttp.BuildableClient); ok && b.GetTimeout() == 0 {
		return b.WithTimeout(attemptTimeout)
	}
	return c
}
