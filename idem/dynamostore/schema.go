package dynamostore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/store"
)

// The attributes of an item. They are named only in this file. Code that creates the table uses AttrKey and
// AttrExpiry. Attributes are added but never removed: later versions read every item that an earlier version
// wrote.
const (
	AttrKey           = "idempotencyKey"     // S, the partition key
	attrStatus        = "status"             // S
	attrVersion       = "version"            // N, the fencing token
	attrOwner         = "owner"              // S
	attrLeaseUntil    = "leaseUntil"         // N, epoch ms
	attrRetryAt       = "retryAt"            // N, epoch ms; only if released
	attrAttempts      = "attempts"           // N
	attrFingerprint   = "requestFingerprint" // B, SHA-256
	attrResult        = "responsePayload"    // B
	attrResultOmitted = "resultOmitted"      // N, size in bytes
	attrFailure       = "failure"            // M: code S, message S, at N (epoch ms)
	attrSource        = "source"             // S
	attrCreatedAt     = "createdAt"          // N, epoch ms
	attrUpdatedAt     = "updatedAt"          // N, epoch ms
	AttrExpiry        = "expiryTimestamp"    // N, epoch s: the table's TTL attribute
)

// item is the stored form of an entry.
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

// attribute is the name and value of an attribute to write. Items are encoded without reflection, which would
// be most of the CPU cost of a batch.
type attribute struct {
	name  string
	value types.AttributeValue
}

// attributes returns the attributes of an entry, in a fixed order.
func attributes(entry *store.Entry) []attribute {
	list := make([]attribute, 0, 16)
	list = append(list,
		attribute{AttrKey, text(entry.Key)}, attribute{attrStatus, text(string(entry.Status))},
		attribute{attrVersion, number(entry.Token)},
		attribute{attrOwner, text(entry.Owner)},
		attribute{attrLeaseUntil, number(entry.LeaseUntil.UnixMilli())},
		attribute{attrAttempts, number(int64(entry.Attempts))},
		attribute{attrCreatedAt, number(entry.CreatedAt.UnixMilli())},
		attribute{attrUpdatedAt, number(entry.UpdatedAt.UnixMilli())},
		attribute{AttrExpiry, number(entry.Expiry.Unix())})
	add := func(has bool, name string, value types.AttributeValue) {
		if has {
			list = append(list, attribute{name, value})
		}
	}
	add(!entry.Fingerprint.IsZero(), attrFingerprint, binary(entry.Fingerprint[:]))
	add(entry.Source != "", attrSource, text(entry.Source))
	add(!entry.RetryAt.IsZero(), attrRetryAt, number(entry.RetryAt.UnixMilli()))
	add(len(entry.Result) > 0, attrResult, binary(entry.Result))
	add(entry.ResultOmitted != 0, attrResultOmitted, number(int64(entry.ResultOmitted)))
	if entry.Failure != nil {
		add(true, attrFailure, failure(entry.Failure))
	}
	return list
}

func encode(entry *store.Entry) map[string]types.AttributeValue {
	list := attributes(entry)
	av := make(map[string]types.AttributeValue, len(list))
	for _, a := range list {
		av[a.name] = a.value
	}
	return av
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func binary(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }

func failure(f *store.Failure) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"code": text(f.Code), "message": text(f.Message), "at": number(f.At.UnixMilli()),
	}}
}

// decode returns the entry of an item, or store.ErrForeignEntry (wrapped) with the key.
func decode(av map[string]types.AttributeValue) (store.Entry, error) {
	entry, err := entryOf(av)
	if err != nil {
		return store.Entry{}, fmt.Errorf("%w: item %q: %w", store.ErrForeignEntry, keyIn(av), err)
	}
	return entry, nil
}

// keyIn returns the key of an item. Every item of the table has one.
func keyIn(av map[string]types.AttributeValue) string {
	if key, ok := av[AttrKey].(*types.AttributeValueMemberS); ok {
		return key.Value
	}
	return ""
}

func entryOf(av map[string]types.AttributeValue) (store.Entry, error) {
	var it item
	if err := attributevalue.UnmarshalMap(av, &it); err != nil {
		return store.Entry{}, err
	}
	status, err := store.ParseStatus(it.Status)
	if err != nil {
		return store.Entry{}, err
	}
	entry := store.Entry{
		Key: it.Key, Status: status, Token: it.Version, Owner: it.Owner,
		LeaseUntil: time.UnixMilli(it.LeaseUntil), RetryAt: fromMillis(it.RetryAt), Attempts: it.Attempts,
		Result: it.Result, ResultOmitted: it.ResultOmitted, Source: it.Source,
		CreatedAt: time.UnixMilli(it.CreatedAt), UpdatedAt: time.UnixMilli(it.UpdatedAt),
		Expiry: time.Unix(it.Expiry, 0),
	}
	if n := copy(entry.Fingerprint[:], it.Fingerprint); n != len(it.Fingerprint) ||
		(n != 0 && n != len(entry.Fingerprint)) {
		return store.Entry{}, fmt.Errorf("the fingerprint has %d bytes; want %d", len(it.Fingerprint),
			len(entry.Fingerprint))
	}
	if f := it.Failure; f != nil {
		entry.Failure = &store.Failure{Code: f.Code, Message: f.Message, At: time.UnixMilli(f.At)}
	}
	return entry, nil
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
