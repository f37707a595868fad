package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	letters "github.com/idemsk/idemsk/kafka/deadletter/s3"
)

// S3 is what is needed of an *s3.Client.
type S3 interface {
	letters.Getter
	s3.ListObjectsV2APIClient
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, optFns ...func(*s3.Options)) (
		*s3.DeleteObjectOutput, error)
}

// maxObject is the largest object that is read: an event of 6 MB and its escapes take a fraction of it.
const maxObject = 64 << 20

var errLargeObject = fmt.Errorf("the object has more than %d MB: it is no on-failure record", maxObject>>20)

// bucket is a source of on-failure records in the objects of a bucket. An object is deleted when its records
// have been redriven.
type bucket struct {
	client S3
	name   string
	pages  *s3.ListObjectsV2Paginator
	keys   []string
}

var _ Source = (*bucket)(nil)

// Bucket returns the on-failure records in a bucket, at s3://BUCKET or s3://BUCKET/PREFIX.
func Bucket(client S3, url string) (Source, error) {
	name, prefix, err := splitBucket(url)
	if err != nil {
		return nil, err
	}
	return &bucket{client: client, name: name, pages: s3.NewListObjectsV2Paginator(client,
		&s3.ListObjectsV2Input{Bucket: &name, Prefix: &prefix})}, nil
}

func splitBucket(url string) (name, prefix string, err error) {
	path, ok := strings.CutPrefix(url, "s3://")
	name, prefix, _ = strings.Cut(path, "/")
	if !ok || !letters.ValidBucket(name) {
		return "", "", fmt.Errorf("--bucket is %q: want s3://BUCKET or s3://BUCKET/PREFIX", url)
	}
	return name, prefix, nil
}

// Next implements Source.
func (b *bucket) Next(ctx context.Context) (*Message, error) {
	for {
		for len(b.keys) == 0 {
			if !b.pages.HasMorePages() {
				return nil, io.EOF
			}
			page, err := b.pages.NextPage(ctx)
			if err != nil {
				return nil, fmt.Errorf("listing the bucket %s: %w", b.name, err)
			}
			for i := range page.Contents {
				b.keys = append(b.keys, aws.ToString(page.Contents[i].Key))
			}
		}
		key := b.keys[0]
		b.keys = b.keys[1:]
		body, err := b.read(ctx, key)
		var missing *types.NoSuchKey
		switch {
		case errors.As(err, &missing): // deleted meanwhile
			continue
		case errors.Is(err, errLargeObject):
			return &Message{Name: key, Err: err}, nil
		case err != nil:
			return nil, fmt.Errorf("reading s3://%s/%s: %w", b.name, key, err)
		}
		return NewMessage(key, body), nil
	}
}

func (b *bucket) read(ctx context.Context, key string) (body []byte, err error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	body, err = io.ReadAll(io.LimitReader(out.Body, maxObject+1))
	if err == nil && len(body) > maxObject {
		return nil, errLargeObject
	}
	return body, err
}

// Begin implements Source.
func (b *bucket) Begin(context.Context, *Message) (time.Time, error) { return time.Time{}, nil }

// Done deletes the object.
func (b *bucket) Done(ctx context.Context, m *Message) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	in := &s3.DeleteObjectInput{Bucket: &b.name, Key: &m.Name}
	if _, err := b.client.DeleteObject(ctx, in); err != nil {
		return fmt.Errorf("deleting s3://%s/%s: %w", b.name, m.Name, err)
	}
	return nil
}

// Close implements Source.
func (b *bucket) Close(context.Context) error { return nil }
