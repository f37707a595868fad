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

	"github.com/idemsk/idemsk/idem/store"

	"github.com/idemsk/idemsk/idem"
)

// DeadLetters takes the records that can never succeed. The package sqsdlq sends them to an SQS queue.
type DeadLetters interface {
	// Send hands a dead letter on. It returns nil only if the letter is safe, for the record is given up then. It may be called
	// concurrently. Letters of different failures differ by DeadLetter.ID: deduplicate by nothing less.
	Send(ctx context.Context, l DeadLetter) error
}

// DeadLetter is a record that can never succeed, with all that is needed to see why and to bring it back. Its JSON form only
// ever grows.
type DeadLetter struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	Timestamp     int64        `json:"timestamp,omitempty"` // epoch ms
	TimestampType string       `json:"timestampType,omitempty"`
	Key           []byte       `json:"key"`   // null in Kafka: null
	Value         []byte       `json:"value"` // null in Kafka, or left out: see ValueOmitted
	Headers       []DeadHeader `json:"headers,omitempty"`
	// Undecoded is the record as it stood in the event, if it could not be decoded; Key, Value and Headers may be missing then.
	Undecoded []byte `json:"undecoded,omitempty"`
	// ValueOmitted is the size in bytes of a value that was left out because the letter would have been too large. The record
	// is to be found in Kafka, at Topic, Partition and Offset, for as long as the topic retains it. Omitted names what else was
	// left out: "headers", "undecoded", "key".
	ValueOmitted int      `json:"valueOmitted,omitempty"`
	Omitted      []string `json:"omitted,omitempty"`

	IdempotencyKey string        `json:"idempotencyKey"` // as stored
	Token          int64         `json:"token"`          // of the FAILED record: what a redriven record carries in RedriveHeader; 0 if no key is FAILED
	Attempts       int           `json:"attempts"`
	Error          store.Failure `json:"error"` // its At is unique to the failure
	// Function is the function that failed, and Cluster the one that the topic is of: its ARN, or the bootstrap servers of one
	// that is self-managed, as they stand in the event. Another function, or another cluster, has a record of its own at the same
	// place.
	Function string `json:"function,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
}

// DeadHeader is a header of a record.
type DeadHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Source is topic-partition@offset.
func (l DeadLetter) Source() string {
	r := Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset}
	return r.Source()
}

// ID is unique to the failure that the letter stands for: the cluster and the function, the record's place, the token and the
// time. The same letter sent again has the same ID. It has 64 hexadecimal digits.
func (l DeadLetter) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s %d %d", l.Cluster, l.Function, l.Source(), l.Token, l.Error.At.UnixNano()))
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
	var unknown *unknownTokenError
	if errors.As(b.Err, &unknown) {
		l.IdempotencyKey, l.Token = unknown.failed.Key, unknown.failed.Token
	}
	l.Error.At = time.Now().UTC().Round(0) // to the nanosecond: letters without a token differ in nothing else
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, DeadHeader(h))
	}
	return l
}

// ErrDeadLetterTooLarge says that a dead letter does not fit, whatever is left out of it.
var ErrDeadLetterTooLarge = errors.New("kafka: the dead letter is too large")

// Encode returns the letter as JSON of at most limit bytes, in characters that every transport takes. What does not fit is
// left out, and named: first the value, then the headers, the undecoded record, and the Kafka key. It returns
// ErrDeadLetterTooLarge (wrapped) if the rest does not fit either.
func (l DeadLetter) Encode(limit int) ([]byte, error) {
	out, err := l.marshal()
	for _, leaveOut := range []func(){
		func() {
			if n := len(l.Value); n > 0 { // without an empty one, the letter would be a tombstone's
				l.ValueOmitted, l.Value = n, nil
			}
		},
		func() { omit(&l, "headers", &l.Headers) },
		func() { omit(&l, "undecoded", &l.Undecoded) },
		func() { omit(&l, "key", &l.Key) },
	} {
		if err != nil || len(out) <= limit {
			break
		}
		leaveOut()
		out, err = l.marshal()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("kafka: encoding the dead letter of %s: %w", l.Source(), err)
	case len(out) > limit:
		return nil, fmt.Errorf("%w: that of %s has %d bytes without what can be left out; the limit is %d",
			ErrDeadLetterTooLarge, l.Source(), len(out), limit)
	}
	return out, nil
}

// marshal writes the two characters that JSON and UTF-8 allow but XML does not, and SQS for its sake, as escapes: a letter
// that is refused for what a producer wrote into a key could never be sent.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
func (l DeadLetter) marshal() ([]byte, error) {
	out, err := json.Marshal(l)
	out = bytes.ReplaceAll(out, []byte("\uFFFE"), []byte(`\ufffe`))
	return bytes.ReplaceAll(out, []byte("\uFFFF"), []byte(`\uffff`)), err
}

func omit[T any](l *DeadLetter, name string, part *[]T) {
	if len(*part) > 0 {
		*part = nil
		l.Omitted = append(slices.Clip(l.Omitted), name) // the letter is a copy, but its slices are shared
	}
}

// ParseDeadLetter reads a letter's JSON form. It returns an error if it is not one.
func ParseDeadLetter(data []byte) (DeadLetter, error) {
	var l DeadLetter
	if err := json.Unmarshal(data, &l); err != nil {
		return DeadLetter{}, fmt.Errorf("kafka: this is not a dead letter of idemsk: %w", err)
	}
	if l.Topic == "" || l.Error.Code == "" {
		return DeadLetter{}, errors.New("kafka: this is not a dead letter of idemsk: it names no topic, or no error")
	}
	return l, nil
}
