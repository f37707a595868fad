package dynamostore

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem"
)

// The attributes of an item. This file is the one place where they are named; whoever provisions the table takes AttrKey
// and AttrExpiry from here. The format only ever grows: later versions read every item that an earlier one wrote.
const (
	AttrKey           = "idempotencyKey"     // S, the partition key
	AttrStatus        = "status"             // S
	AttrVersion       = "version"            // N, the fencing token
	AttrOwner         = "owner"              // S
	AttrLeaseUntil    = "leaseUntil"         // N, epoch ms
	AttrRetryAt       = "retryAt"            // N, epoch ms; present: released
	AttrAttempts      = "attempts"           // N
	AttrFingerprint   = "requestFingerprint" // B, SHA-256
	AttrResult        = "responsePayload"    // B
	AttrResultOmitted = "resultOmitted"      // N, size in bytes
	AttrFailure       = "failure"            // M: code S, message S, at N (epoch ms)
	AttrSource        = "source"             // S
	AttrCreatedAt     = "createdAt"          // N, epoch ms
	AttrUpdatedAt     = "updatedAt"          // N, epoch ms
	AttrExpiry        = "expiryTimestamp"    // N, epoch s: the table's TTL attribute
)

// item is the stored form of a record.
type item struct {
	Key           string       `dynamodbav:"idempotencyKey"`
	Status        string       `dynamodbav:"status"`
	Version       int64        `dynamodbav:"version"`
	Owner         string       `dynamodbav:"owner"`
	LeaseUntil    int64        `dynamodbav:"leaseUntil"`
	RetryAt       int64        `dynamodbav:"retryAt,omitempty"`
	Attempts      int          `dynamodbav:"attempts"`
	Fingerprint   []byte       `dynamodbav:"requestFingerprint,omitempty"`
	Result        []byte       `dynamodbav:"responsePayload,omitempty"`
	ResultOmitted int          `dynamodbav:"resultOmitted,omitempty"`
	Failure       *failureItem `dynamodbav:"failure,omitempty"`
	Source        string       `dynamodbav:"source,omitempty"`
	CreatedAt     int64        `dynamodbav:"createdAt"`
	UpdatedAt     int64        `dynamodbav:"updatedAt"`
	Expiry        int64        `dynamodbav:"expiryTimestamp"`
}

type failureItem struct {
	Code    string `dynamodbav:"code"`
	Message string `dynamodbav:"message"`
	At      int64  `dynamodbav:"at"`
}

func encode(rec *idem.Record) (map[string]types.AttributeValue, error) {
	it := item{
		Key: rec.Key, Status: string(rec.Status), Version: rec.Version, Owner: rec.Owner,
		LeaseUntil: rec.LeaseUntil.UnixMilli(), RetryAt: millis(rec.RetryAt), Attempts: rec.Attempts,
		Result: rec.Result, ResultOmitted: rec.ResultOmitted, Failure: encodeFailure(rec.Failure), Source: rec.Source,
		CreatedAt: rec.CreatedAt.UnixMilli(), UpdatedAt: rec.UpdatedAt.UnixMilli(), Expiry: rec.Expiry.Unix(),
	}
	if !rec.Fingerprint.IsZero() {
		it.Fingerprint = rec.Fingerprint[:]
	}
	av, err := attributevalue.MarshalMap(it)
	if err != nil {
		return nil, fmt.Errorf("encoding the item: %w", err)
	}
	return av, nil
}

func decode(av map[string]types.AttributeValue) (idem.Record, error) {
	var it item
	if err := attributevalue.UnmarshalMap(av, &it); err != nil {
		return idem.Record{}, fmt.Errorf("the item is not one of ours: %w", err)
	}
	status, err := idem.ParseStatus(it.Status)
	if err != nil {
		return idem.Record{}, fmt.Errorf("the item of key %q is not one of ours: %w", it.Key, err)
	}
	rec := idem.Record{
		Key: it.Key, Status: status, Version: it.Version, Owner: it.Owner,
		LeaseUntil: time.UnixMilli(it.LeaseUntil), RetryAt: fromMillis(it.RetryAt), Attempts: it.Attempts,
		Result: it.Result, ResultOmitted: it.ResultOmitted, Source: it.Source,
		CreatedAt: time.UnixMilli(it.CreatedAt), UpdatedAt: time.UnixMilli(it.UpdatedAt), Expiry: time.Unix(it.Expiry, 0),
	}
	if n := copy(rec.Fingerprint[:], it.Fingerprint); n != len(it.Fingerprint) || (n != 0 && n != len(rec.Fingerprint)) {
		return idem.Record{}, fmt.Errorf("the item of key %q has a fingerprint of %d bytes; want %d", it.Key, len(it.Fingerprint), len(rec.Fingerprint))
	}
	if f := it.Failure; f != nil {
		rec.Failure = &idem.Failure{Code: f.Code, Message: f.Message, At: time.UnixMilli(f.At)}
	}
	return rec, nil
}

func encodeFailure(f *idem.Failure) *failureItem {
	if f == nil {
		return nil
	}
	return &failureItem{Code: f.Code, Message: f.Message, At: f.At.UnixMilli()}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
