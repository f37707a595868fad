// Package s3 stores the values of large dead letters in an S3 bucket, so that letters that are too large for
// a queue or a topic do not depend on the retention of the source topic. It wraps any kafka.DeadLetters:
//
//	letters, err := s3.New(queue, s3.NewFromConfig(cfg), s3.Config{Bucket: "payments-dead-letters"})
//
// The bucket keeps an object until a lifecycle rule of the bucket deletes it. idemsk redrive reads it and
// does not delete it.
package s3

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// DefaultMaxValue is the default of Config.MaxValue: in JSON the value takes a third more, and fits a message
// of SQS with key and headers.
const DefaultMaxValue = 128 << 10

// MaxPrefix is the maximum length in bytes of Config.Prefix. S3 allows names of 1,024 bytes.
const MaxPrefix = 512

// Putter is the part of *s3.Client that stores values.
type Putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, optFns ...func(*s3.Options)) (*s3.PutObjectOutput,
		error)
}

// Getter is the part of *s3.Client that reads values.
type Getter interface {
	GetObject(ctx context.Context, in *s3.GetObjectInput, optFns ...func(*s3.Options)) (*s3.GetObjectOutput,
		error)
}

// Config configures a Spill.
type Config struct {
	// Bucket is the name of the bucket, and Prefix that of its objects, such as "ledger/". The rest of an
	// object's name is DeadLetter.ID, so a letter that is sent again overwrites its object with the same
	// value.
	Bucket, Prefix string
	// MaxValue is the size in bytes of the largest value that stays in its letter (default DefaultMaxValue).
	MaxValue int
}

// Spill is a destination of dead letters whose large values are in a bucket.
type Spill struct {
	next   kafka.DeadLetters
	client Putter
	cfg    Config
}

var _ kafka.DeadLetters = (*Spill)(nil)

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// ValidBucket reports whether a name can be that of a bucket: 3 to 63 lower-case letters, digits, '.' and
// '-'.
func ValidBucket(name string) bool { return bucketName.MatchString(name) }

// New returns a destination that sends letters to next. It sends no request. It returns idem.ErrInvalidConfig
// (wrapped), which names the invalid field.
func New(next kafka.DeadLetters, client Putter, cfg Config) (*Spill, error) {
	cfg.MaxValue = cmp.Or(cfg.MaxValue, DefaultMaxValue)
	switch {
	case next == nil || client == nil:
		return nil, fmt.Errorf("s3: %w: want dead letters and a client of S3", idem.ErrInvalidConfig)
	case !ValidBucket(cfg.Bucket):
		return nil, fmt.Errorf("s3: %w: Bucket is %q: want 3 to 63 lower-case letters, digits, '.' and '-'",
			idem.ErrInvalidConfig, cfg.Bucket)
	case len(cfg.Prefix) > MaxPrefix:
		return nil, fmt.Errorf("s3: %w: Prefix has %d bytes: want at most %d", idem.ErrInvalidConfig,
			len(cfg.Prefix), MaxPrefix)
	case cfg.MaxValue < 0:
		return nil, fmt.Errorf("s3: %w: MaxValue is %d: want 0, for %d, or more", idem.ErrInvalidConfig,
			cfg.MaxValue, DefaultMaxValue)
	}
	return &Spill{next: next, client: client, cfg: cfg}, nil
}

// Destination returns that of the letters, see kafka.DestinationOf.
func (s *Spill) Destination() kafka.Destination { return kafka.DestinationOf(s.next) }

// Check checks the destination of the letters, if that can be checked. It does not check the bucket.
func (s *Spill) Check(ctx context.Context) error {
	if checked, ok := s.next.(interface {
		Check(ctx context.Context) error
	}); ok {
		return checked.Check(ctx)
	}
	return nil
}

const scheme = "s3://"

// Send implements kafka.DeadLetters. It stores a large value before it sends the letter, which names the
// object.
func (s *Spill) Send(ctx context.Context, l kafka.DeadLetter) error {
	if len(l.Value) > s.cfg.MaxValue {
		key := s.cfg.Prefix + l.ID()
		in := &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &key, Body: bytes.NewReader(l.Value)}
		if _, err := s.client.PutObject(ctx, in); err != nil {
			return fmt.Errorf("s3: storing the value of the dead letter of %s (%d bytes) in %s%s/%s: %w%s",
				l.Source(), len(l.Value), scheme, s.cfg.Bucket, key, err,
				hint(err, "s3:PutObject", "kms:GenerateDataKey"))
		}
		l.ValueObject, l.ValueOmitted, l.Value = scheme+s.cfg.Bucket+"/"+key, len(l.Value), nil
	}
	return s.next.Send(ctx, l)
}

// Fill puts the value of a letter from its ValueObject into it.
func Fill(ctx context.Context, client Getter, l *kafka.DeadLetter) error {
	bucket, key, ok := strings.Cut(strings.TrimPrefix(l.ValueObject, scheme), "/")
	if !ok || !strings.HasPrefix(l.ValueObject, scheme) || !ValidBucket(bucket) || key == "" {
		return fmt.Errorf("s3: the dead letter of %s names the object %.300q: want s3://BUCKET/KEY",
			l.Source(), l.ValueObject)
	}
	value, err := read(ctx, client, bucket, key, l.ValueOmitted)
	if err != nil {
		return fmt.Errorf("s3: reading the value of the dead letter of %s from %s: %w%s",
			l.Source(), l.ValueObject, err, hint(err, "s3:GetObject", "kms:Decrypt"))
	}
	l.Value, l.ValueOmitted, l.ValueObject = value, 0, ""
	return nil
}

func read(ctx context.Context, client Getter, bucket, key string, size int) (value []byte, err error) {
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	if value, err = io.ReadAll(io.LimitReader(out.Body, int64(size)+1)); err != nil {
		return nil, err
	}
	if len(value) != size {
		return nil, fmt.Errorf("the object does not have the %d bytes of the value", size)
	}
	return value, nil
}

// hint returns the remedy for an error of S3.
func hint(err error, action, keyAction string) string {
	var missing *types.NoSuchKey
	var api smithy.APIError
	switch {
	case errors.As(err, &missing):
		return " (the object was deleted: by a lifecycle rule of the bucket?)"
	case errors.As(err, &api) && api.ErrorCode() == "NoSuchBucket":
		return " (there is no such bucket)"
	case errors.As(err, &api) && api.ErrorCode() == "AccessDenied":
		return " (the role needs " + action + " on the objects of the bucket, and " + keyAction +
			" on its key, if it has one)"
	}
	return ""
}
