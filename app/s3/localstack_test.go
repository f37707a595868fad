//go:build rest

package s3_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
)

func TestLargeValuesInLocalStack(t *testing.T) {
	endpoint := awstest.LocalStack(t)
	queues, client := sqs.NewFromConfig(awstest.Config(t, endpoint)), s3test.Client(t, endpoint)
	queue, bucket := awstest.CreateQueue(t, queues, awstest.Name("letters")), awstest.Name("letters")
	awstest.AtEnd(t, func(ctx context.Context) error {
		_, err := queues.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: &queue})
		return err
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	large, small := failedRecords(t, queues, queue, endpoint, bucket)
	if large.ValueObject == "" || small.ValueObject != "" {
		t.Errorf("the letters name %q and %q", large.ValueObject, small.ValueObject)
	}
	key := strings.TrimPrefix(large.ValueObject, "s3://"+bucket+"/")
	awstest.AtEnd(t, func(ctx context.Context) error {
		if _, err := client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &bucket, Key: &key}); err != nil {
			return err
		}
		_, err := client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &bucket})
		return err
	})
}
