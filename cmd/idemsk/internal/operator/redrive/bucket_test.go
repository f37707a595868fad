package redrive_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
)

// bucketStore is an S3 with one bucket, whose pages have one object.
type bucketStore struct {
	objects
	gone map[string]bool // listed, and deleted before they are read
	err  error           // of DeleteObject
}

// ListObjectsV2 implements redrive.S3.
func (s *bucketStore) ListObjectsV2(_ context.Context, in *awss3.ListObjectsV2Input,
	_ ...func(*awss3.Options)) (*awss3.ListObjectsV2Output, error) {
	all := slices.Sorted(maps.Keys(s.objects))
	all = slices.DeleteFunc(append(all, slices.Collect(maps.Keys(s.gone))...), func(key string) bool {
		return *in.Bucket != "gave-up" || !strings.HasPrefix(key, *in.Prefix) ||
			key <= aws.ToString(in.ContinuationToken)
	})
	if len(all) == 0 {
		return &awss3.ListObjectsV2Output{}, nil
	}
	slices.Sort(all)
	return &awss3.ListObjectsV2Output{Contents: []types.Object{{Key: &all[0]}},
		IsTruncated: aws.Bool(len(all) > 1), NextContinuationToken: &all[0]}, nil
}

// DeleteObject implements redrive.S3.
func (s *bucketStore) DeleteObject(_ context.Context, in *awss3.DeleteObjectInput,
	_ ...func(*awss3.Options)) (*awss3.DeleteObjectOutput, error) {
	if s.err == nil {
		delete(s.objects, *in.Key)
	}
	return &awss3.DeleteObjectOutput{}, s.err
}

// endless is an S3 whose objects have no end.
type endless struct{ *bucketStore }

// GetObject implements redrive.S3.
func (endless) GetObject(context.Context, *awss3.GetObjectInput,
	...func(*awss3.Options)) (*awss3.GetObjectOutput, error) {
	return &awss3.GetObjectOutput{Body: io.NopCloser(zeros{})}, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func openBucket(t *testing.T, client redrive.S3, url string) redrive.Source {
	t.Helper()
	source, err := redrive.Bucket(client, url)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// An object leaves the bucket when all of its records are sent. Others stay.
func TestBucket(t *testing.T) {
	t.Parallel()
	batch := string(withPayload())
	s := &bucketStore{objects: objects{"aws/1": batch, "aws/2": "hello", "other": batch},
		gone: map[string]bool{"aws/0": true}}
	for _, run := range []struct {
		refuse   map[int64]bool
		outcomes string
		left     []string
	}{
		{map[int64]bool{8: true}, "aws/1#1 redriven, aws/1#2 not redriven, aws/2 not a dead letter",
			[]string{"aws/1", "aws/2", "other"}},
		{nil, "aws/1#1 redriven, aws/1#2 redriven, aws/2 not a dead letter", []string{"aws/2", "other"}},
	} {
		results, _ := runAll(t, redrive.Options{Source: openBucket(t, s, "s3://gave-up/aws/"),
			Destination: &listDestination{refuse: run.refuse}})
		left := slices.Sorted(maps.Keys(s.objects))
		if got := outcomes(results); got != run.outcomes || !slices.Equal(left, run.left) {
			t.Errorf("%s, left %v; want %s, %v", got, left, run.outcomes, run.left)
		}
	}
	s.err = errors.New("denied")
	results, _ := runAll(t, redrive.Options{Source: openBucket(t, s, "s3://gave-up/other"),
		Destination: &listDestination{}})
	if r := results[1]; r.Outcome != redrive.Redriven ||
		!strings.Contains(r.Error, "deleting s3://gave-up/other: denied") {
		t.Errorf("%+v", r)
	}
}

func TestLargeObjectIsNoLetter(t *testing.T) {
	t.Parallel()
	s := endless{&bucketStore{objects: objects{"a": ""}}}
	results, _ := runAll(t, redrive.Options{Source: openBucket(t, s, "s3://gave-up"),
		Destination: &listDestination{}})
	if r := results[0]; r.Outcome != redrive.NotDeadLetter || !strings.Contains(r.Error, "more than 64 MB") {
		t.Errorf("%+v", r)
	}
}
