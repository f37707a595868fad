package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
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
// it. In its JSON form, bytes that are UTF-8 are {"text": "…"}, and all others a string in base64.
type DeadLetter struct {
	Topic         string       `json:"topic"`
	Partition     int32        `json:"partition"`
	Offset        int64        `json:"offset"`
	Timestamp     int64        `json:"timestamp,omitempty"` // epoch ms
	TimestampType string       `json:"timestampType,omitempty"`
	Key           []byte       `json:"key"`   // null in Kafka: null
	Value         []byte       `json:"value"` // null in Kafka, or omitted: see ValueOmitted
	Headers       []DeadHeader `json:"headers,omitempty"`
	// Undecoded is the record as it is in the event, if it could not be decoded. It has the value and the
	// headers, and perhaps the key, which the letter does not have then.
	Undecoded []byte `json:"undecoded,omitempty"`
	// ValueOmitted is the size in bytes of a value that was omitted because the letter would have been too
	// large. The record is in Kafka, at Topic, Partition and Offset, for as long as the topic retains it.
	// Omitted names the other omitted fields: "headers", "undecoded", "key". Nothing is omitted from the letter
	// of a queue's message without a ValueObject.
	ValueOmitted int      `json:"valueOmitted,omitempty"`
	Omitted      []string `json:"omitted,omitempty"`
	// ValueObject is the object in S3 with the whole letter, s3://BUCKET/KEY, if package kafka/deadletter/s3 has
	// stored it.
	ValueObject string `json:"valueObject,omitempty"`

	IdempotencyKey string `json:"idempotencyKey"` // as stored
	// of the FAILED entry, as in the RedriveHeader of the redriven record; 0 if no key is FAILED
	Token    int64         `json:"token"`
	Attempts int           `json:"attempts"`
	Error    store.Failure `json:"error"` // its At is unique to the failure
	// Function is the name of the function that failed. Cluster is the cluster of the topic: its ARN, or the
	// bootstrap servers of a self-managed one, as in the event; of a message, the ARN of its SQS queue. Other
	// functions and clusters may have their own letters for the same topic, partition and offset.
	Function string `json:"function,omitempty"`
	Cluster  string `json:"cluster,omitempty"`
}

// DeadHeader is a header of a record. In JSON, a name that is not UTF-8 is {"base64": "…"}.
type DeadHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Source returns topic-partition@offset.
func (l DeadLetter) Source() string {
	r := Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset}
	return r.Source()
}

// Queue returns the ARN of the SQS queue whose message the letter has, and "" for a record of Kafka.
func (l DeadLetter) Queue() string {
	if IsQueue(l.Cluster) {
		return l.Cluster
	}
	return ""
}

// IsQueue reports whether an ARN is that of an SQS queue: arn:aws:sqs:eu-central-1:123456789012:payments.
func IsQueue(arn string) bool {
	const partsOfARN, service = 6, 2
	parts := strings.SplitN(arn, ":", partsOfARN)
	return len(parts) == partsOfARN && parts[0] == "arn" && parts[service] == "sqs"
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
	var notOpened *notOpenedError
	if errors.As(b.Err, &notOpened) {
		l.IdempotencyKey, l.Token = notOpened.failed.Key, notOpened.failed.Token
		l.Error.Code = notOpened.failed.Failure.Code // which a redrive takes along with the token
	}
	l.Error.At = time.Now().UTC().Round(0) // in nanoseconds: letters without a token differ only in the time
	if r.Undecodable != nil {
		l.Undecoded, l.Value = r.Undecodable.Raw, nil
		return l
	}
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, DeadHeader(h))
	}
	return l
}
