// Package s3 stores large dead letters in an S3 bucket, so that those that are too large for a queue or a topic
// do not depend on the retention of the source topic, or have a message of SQS. It wraps any kafka.DeadLetters:
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
	"math"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
)

// DefaultMaxValue is the default of Config.MaxValue: with it a letter of text fits each queue and each topic.
const DefaultMaxValue = 128 << 10

// MaxPrefix is the maximum length in bytes of Config.Prefix. S3 allows names of 1,024 bytes.
const MaxPrefix = 512

// Putter is the part of *s3.Client that stores letters.
type Putter interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, optFns ...func(*s3.Options)) (*s3.PutObjectOutput,
		error)
}

// Getter is the part of *s3.Client that reads letters.
type Getter interface {
	GetObject(ctx context.Context, in *s3.GetObjectInput, optFns ...func(*s3.Options)) (*s3.GetObjectOutput,
		error)
}

// Config configures a Spill.
type Config struct {
	// Bucket is the name of the bucket, and Prefix that of its objects, such as "ledger/". The rest of an
	// object's name is DeadLetter.ID, so a letter that is sent again overwrites its object with the same
	// content.
	Bucket, Prefix string
	// MaxValue is the size in bytes of the largest record, with key and headers, that stays in its letter
	// (default DefaultMaxValue).
	MaxValue int
}

// Spill is a destination of dead letters. Those that are large are in a bucket.
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

// Send implements kafka.DeadLetters. It stores a large letter before it sends a smaller one, which names the
// object.
func (s *Spill) Send(ctx context.Context, l kafka.DeadLetter) error {
	small := l
	small.ValueObject = scheme + s.cfg.Bucket + "/" + s.cfg.Prefix + l.ID()
	small, whole := small.Reduce() // an error means that there is nothing to leave out
	if whole != nil || sizeOf(&l) <= s.cfg.MaxValue {
		if err := s.next.Send(ctx, l); whole != nil || !errors.Is(err, kafka.ErrDeadLetterTooLarge) {
			return err
		}
	}
	if err := s.put(ctx, &l, small.ValueObject); err != nil {
		return err
	}
	return s.next.Send(ctx, small)
}

// sizeOf is the size of the record in a letter.
func sizeOf(l *kafka.DeadLetter) int {
	n := len(l.Key) + len(l.Value) + len(l.Undecoded)
	for _, h := range l.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

func (s *Spill) put(ctx context.Context, l *kafka.DeadLetter, object string) error {
	body, err := l.Encode(math.MaxInt)
	if err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	key := s.cfg.Prefix + l.ID()
	in := &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &key, Body: bytes.NewReader(body)}
	if _, err := s.client.PutObject(ctx, in); err != nil {
		return fmt.Errorf("s3: storing the dead letter of %s (%d bytes) in %s: %w%s", l.Source(), len(body), object,
			err, hint(err, "s3:PutObject", "kms:GenerateDataKey"))
	}
	return nil
}

// Fill puts what was omitted from a letter into it, from its ValueObject.
func Fill(ctx context.Context, client Getter, l *kafka.DeadLetter) error {
	bucket, key, ok := strings.Cut(strings.TrimPrefix(l.ValueObject, scheme), "/")
	if !ok || !strings.HasPrefix(l.ValueObject, scheme) || !ValidBucket(bucket) || key == "" {
		return fmt.Errorf("s3: the dead letter of %s names the object %.300q: want s3://BUCKET/KEY",
			l.Source(), l.ValueObject)
	}
	whole, err := read(ctx, client, bucket, key)
	if err == nil && whole.ID() != l.ID() {
		err = fmt.Errorf("it has another dead letter, of %s", whole.Source())
	}
	if err != nil {
		return fmt.Errorf("s3: reading the whole dead letter of %s from %s: %w%s",
			l.Source(), l.ValueObject, err, hint(err, "s3:GetObject", "kms:Decrypt"))
	}
	*l = whole
	return nil
}

// maxObject is more than the largest letter: Kafka's largest record has 2 GiB, and those of more than some MiB
// are rare.
const maxObject = 1 << 30

func read(ctx context.Context, client Getter, bucket, key string) (l kafka.DeadLetter, err error) {
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(out.Body, maxObject))
	if err != nil {
		return l, err
	}
	return kafka.ParseDeadLetter(body)
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
