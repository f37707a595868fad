package app

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/faultproxy"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/deadletter/sqs"
)

// With a timeout of 15 seconds, a function that waits for SQS as long could not release the record's key.
func TestDeadLetterIsSentAfterConnectionsFallSilent(t *testing.T) {
	t.Parallel()
	var size atomic.Int64
	proxy, url := faultproxy.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size.Store(r.ContentLength)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = w.Write([]byte(`{"MessageId":"m"}`))
	}))
	awsCfg := aws.Config{Region: "eu-central-1", BaseEndpoint: &url,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	base := &Base{
		Config: Config{DeadLetterQueueURL: url + "/0/q", DeadLetterMaxBytes: sqs.SmallestMaxBytes},
		awsCfg: func(context.Context) (aws.Config, error) { return awsCfg, nil },
	}
	queue := must(base.deadLetters(t.Context()))
	letter := kafka.DeadLetter{Topic: "payments", Value: make([]byte, sqs.SmallestMaxBytes),
		Error: store.Failure{Code: store.CodePermanent}}
	proxy.WantToGoOn(t, 15*dynamostore.AttemptTimeout,
		func(ctx context.Context) error { return queue.Send(ctx, letter) })
	equal(t, "the value is left out of a letter that is too large with it",
		size.Load() < sqs.SmallestMaxBytes, true)
}
