//go:build rest

package s3_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/internal/test/testkit/s3test"
)

func TestLargeValueInLocalStack(t *testing.T) {
	c := s3test.Client(t, awstest.LocalStack(t))
	name := bucket
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	awstest.AtEnd(t, func(ctx context.Context) error {
		large := letter(1001)
		key := "ledger/" + large.ID()
		if _, err := c.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &name, Key: &key}); err != nil {
			return err
		}
		_, err := c.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
		return err
	})
	roundTrip(t, c)
}
