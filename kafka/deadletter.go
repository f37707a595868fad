package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// DeadLetters is the destination of records that can never succeed. Package kafka/deadletter/sqs sends them
// to an SQS queue, package kafka/deadletter/topic to a Kafka topic.
type DeadLetters interface {
	// Send sends a dead letter. It must return nil only if the letter is stored durably, because the record
	// is not delivered again then. It may be called concurrently. Letters of different failures have
	// different values of DeadLetter.ID; deduplicate by the whole ID only.
	Send(ctx context.Context, l DeadLetter) error
}

// DeadLetter is a record that can never succeed, with its failure and everything that is needed to redrive
// it. Fields may be added to its JSON form, but none is removed or changed.
type DeadLetter struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	Timestamp     int64        `json:"timestamp,omitempty"` // epoch ms
	TimestampType string       `json:"timestampType,omitempty"`
	Key           []byte       `json:"key"`   // null in Kafka: null
	Value         []byte       `json:"value"` // null in Kafka, or omitted: see ValueOmitted
	Headers       []DeadHeader `json:"headers,omitempty"`
	// Undecoded is the record as it is in the event, if it could not be decoded. Key, Value and Headers may
	// be missing then.
	Undecoded []byte `json:"undecoded,omitempty"`
	// ValueOmitted is the size in bytes of a value that was omitted because the letter would have been too
	// large. The record is in Kafka, at Topic, Partition and Offset, for as long as the topic retains it.
	// Omitted names the other omitted fields: "headers", "undecoded", "key".
	ValueOmitted int      `json:"valueOmitted,omitempty"`
	Omitted      []string `json:"omitted,omitempty"`
	// ValueObject is the object in S3 with the omitted value, s3://BUCKET/KEY, if package kafka/deadletter/s3
	// has stored it.
	ValueObject string `json:"valueObject,omitempty"`

	IdempotencyKey string `json:"idempotencyKey"` // as stored
	// of the FAILED entry: the value of RedriveHeader in the redriven record; 0 if no key is FAILED
	Token    int64         `json:"token"`
	Attempts int           `json:"attempts"`
	Error    store.Failure `json:"error"` // its At is unique to the failure
	// Function is the name of the function that failed. Cluster is the cluster of the topic: its ARN, or the
	// bootstrap servers of a self-managed one, as in the event. Other functions and clusters may have their
	// own letters for the same topic, partition and offset.
	Function string `json:"function,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
}

// DeadHeader is a header of a record.
type DeadHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Source returns topic-partition@offset.
func (l DeadLetter) Source() string {
	r := Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset}
	return r.Source()
}

// ID identifies the failure: it is derived from the cluster, the function, the record's place, the token and
// the time. A letter that is sent again has the same ID. It has 64 hexadecimal digits.
func (l DeadLetter) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s %d %d", l.Cluster, l.Function, l.Source(), l.Token,
		l.Error.At.UnixNano()))
	return hex.EncodeToString(sum[:])
}

func newDeadLetter(r *Record, b idem.DeadLetter, function, cluster string) DeadLetter {
	l := DeadLetter{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, TimestampType: r.TimestampType,
		Key: r.Key, Value: r.Value,
		IdempotencyKey: b.StoredKey, Token: b.Attempt.Token, Attempts: b.Attempt.Number, Error: b.Failure,
		Function: function, Cluster: cluster,
	}
	if !r.Timestamp.IsZero() {
		l.Timestamp = r.Timestamp.UnixMilli()
	}
	if r.Undecodable != nil {
		l.Undecoded = r.Undecodable.Raw
	}
	var notOpened *notOpenedError
	if errors.As(b.Err, &notOpened) {
		l.IdempotencyKey, l.Token = notOpened.failed.Key, notOpened.failed.Token
	}
	l.Error.At = time.Now().UTC().Round(0) // in nanoseconds: letters without a token differ only in the time
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, DeadHeader(h))
	}
	return l
}

// ErrDeadLetterTooLarge means that a dead letter exceeds the limit even with all optional fields omitted.
var ErrDeadLetterTooLarge = errors.New("kafka: the dead letter is too large")

// Encode returns the letter as JSON of at most limit bytes, in characters that every transport accepts. A
// larger letter is reduced until it fits. Encode returns ErrDeadLetterTooLarge (wrapped) if it can't be
// reduced any more.
func (l DeadLetter) Encode(limit int) ([]byte, error) {
	for {
		out, err := l.marshal()
		if err != nil {
			return nil, fmt.Errorf("kafka: encoding the dead letter of %s: %w", l.Source(), err)
		}
		if len(out) <= limit {
			return out, nil
		}
		smaller, ok := l.Reduce()
		if !ok {
			return nil, fmt.Errorf("%w: that of %s has %d bytes with all optional fields omitted; the limit is %d",
				ErrDeadLetterTooLarge, l.Source(), len(out), limit)
		}
		l = smaller
	}
}

// Reduce returns the letter without the first of these fields that it has: the value, the headers, the
// undecoded record, the Kafka key. The returned letter names the omitted field. Reduce returns false if the
// letter has none of them.
func (l DeadLetter) Reduce() (smaller DeadLetter, ok bool) {
	switch {
	case len(l.Value) > 0: // without its empty value the letter would describe a tombstone
		l.ValueOmitted, l.Value = len(l.Value), nil
	case len(l.Headers) > 0:
		omit(&l, "headers", &l.Headers)
	case len(l.Undecoded) > 0:
		omit(&l, "undecoded", &l.Undecoded)
	case len(l.Key) > 0:
		omit(&l, "key", &l.Key)
	default:
		return l, false
	}
	return l, true
}

// marshal escapes the characters U+FFFE and U+FFFF. JSON and UTF-8 allow them, but XML does not, and so SQS
// refuses them. Otherwise a letter whose key contains one could never be sent.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
func (l DeadLetter) marshal() ([]byte, error) {
	out, err := json.Marshal(l)
	out = bytes.ReplaceAll(out, []byte("\uFFFE"), []byte(`\ufffe`))
	return bytes.ReplaceAll(out, []byte("\uFFFF"), []byte(`\uffff`)), err
}

func omit[T any](l *DeadLetter, name string, part *[]T) {
	*part = nil
	l.Omitted = append(slices.Clip(l.Omitted), name) // the letter is a copy, but its slices are shared
}

// ParseDeadLetter reads a letter's JSON form. It returns an error if it is not one.
func ParseDeadLetter(data []byte) (DeadLetter, error) {
	var l DeadLetter
	if err := json.Unmarshal(data, &l); err != nil {
		return DeadLetter{}, fmt.Errorf("kafka: this is not a dead letter of idemsk: %w", err)
	}
	if l.Topic == "" || l.Error.Code == "" {
		return DeadLetter{}, errors.New(
			"kafka: this is not a dead letter of idemsk: it names no topic, or no error")
	}
	return l, nil
}
