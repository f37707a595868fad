package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// Bucket is the part of *s3.Client that reads exports.
type Bucket interface {
	s3.ListObjectsV2APIClient
	GetObject(ctx context.Context, in *s3.GetObjectInput, optFns ...func(*s3.Options)) (*s3.GetObjectOutput,
		error)
}

const scheme = "s3://"

// InBucket reports whether an export is in S3.
func InBucket(location string) bool { return strings.HasPrefix(location, scheme) }

// OpenObject opens the newest object whose name begins with the one in location, s3://BUCKET/NAME, and ends
// as ReadExport requires. The rows are read while they are used.
func OpenObject(ctx context.Context, client Bucket, location, field string) (*Export, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(location, scheme), "/")
	newest, err := newestObject(ctx, client, bucket, prefix)
	if err != nil {
		return nil, fmt.Errorf("looking for an export in %s: %w%s", location, err, hint(err))
	}
	if newest == nil {
		return nil, fmt.Errorf("there is no export in %s: want an object whose name begins so and ends in .csv or .jsonl", location)
	}
	name := scheme + bucket + "/" + *newest.Key
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: newest.Key})
	if err != nil {
		return nil, fmt.Errorf("reading the export %s: %w%s", name, err, hint(err))
	}
	return &Export{Closer: out.Body, Name: name, Written: *newest.LastModified,
		Rows: ReadExport(name, out.Body, field)}, nil
}

func newestObject(ctx context.Context, client Bucket, bucket, prefix string) (*types.Object, error) {
	var newest *types.Object
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, object := range page.Contents {
			if formatOf(*object.Key) != nil &&
				(newest == nil || object.LastModified.After(*newest.LastModified)) {
				newest = &object
			}
		}
	}
	return newest, nil
}

// hint returns the remedy for an error of S3.
func hint(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return ""
	}
	switch api.ErrorCode() {
	case "AccessDenied":
		return ": the role needs s3:ListBucket on the bucket, s3:GetObject on its objects, and kms:Decrypt with a customer key"
	case "NoSuchBucket", "PermanentRedirect":
		return ": check the bucket's name and the region"
	}
	return ""
}
