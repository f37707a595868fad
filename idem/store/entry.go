package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"
)

// Status is the stored status of a key.
type Status string

// The statuses.
const (
	StatusStarted   Status = "STARTED"   // claimed until its lease ends; released if RetryAt is set
	StatusCompleted Status = "COMPLETED" // final until its retention ends
	StatusFailed    Status = "FAILED"    // final until its retention ends, or until a redrive
)

// ParseStatus returns the status with that name, in capitals, as stored.
func ParseStatus(s string) (Status, error) {
	switch st := Status(s); st {
	case StatusStarted, StatusCompleted, StatusFailed:
		return st, nil
	}
	return "", fmt.Errorf("idem: unknown status %q: want %s, %s or %s", s, StatusStarted, StatusCompleted,
		StatusFailed)
}

// Entry is what a store keeps of a key. Times have millisecond precision, Expiry has whole seconds. The JSON
// names are those of the attributes in DynamoDB; the fencing token is the attribute version there.
type Entry struct {
	Key    string `json:"idempotencyKey"`
	Status Status `json:"status"`
	Token  int64  `json:"version"` // the fencing token
	Owner  string `json:"owner"`   // the claim attempt that holds the key, or held it last
	// LeaseUntil is the end of the lease of a held key. Of a key that is settled or released a store may not keep it.
	LeaseUntil time.Time `json:"leaseUntil,omitzero"`
	// RetryAt is set if the key is released: it can be claimed from then on.
	RetryAt     time.Time   `json:"retryAt,omitzero"`
	Attempts    int         `json:"attempts"`
	Fingerprint Fingerprint `json:"requestFingerprint,omitzero"`
	Result      []byte      `json:"responsePayload,omitempty"`
	// ResultOmitted is the size in bytes of a result that was too large to store, or ResultUnencodable.
	ResultOmitted int      `json:"resultOmitted,omitempty"`
	Failure       *Failure `json:"failure,omitempty"` // the last failure, also while STARTED
	// Source is topic-partition@offset of the record that last claimed the key.
	Source    string    `json:"source,omitempty"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	Expiry    time.Time `json:"expiryTimestamp,omitzero"`
}

// Released reports whether the key is STARTED and its owner has released it.
func (r *Entry) Released() bool { return r.Status == StatusStarted && !r.RetryAt.IsZero() }

// Held reports whether the key is STARTED and its owner has not released it.
func (r *Entry) Held() bool { return r.Status == StatusStarted && r.RetryAt.IsZero() }

// StoredResult returns the result of a COMPLETED key. If the result was not stored, it returns
// ErrResultNotStored (wrapped, with the size).
func (r *Entry) StoredResult() ([]byte, error) {
	switch {
	case r.ResultOmitted == ResultUnencodable:
		return nil, fmt.Errorf("%w: it could not be encoded", ErrResultNotStored)
	case r.ResultOmitted != 0:
		return nil, fmt.Errorf("%w: it had %d bytes", ErrResultNotStored, r.ResultOmitted)
	}
	return r.Result, nil
}

// ResultUnencodable is the value of ResultOmitted for a result that could not be encoded.
const ResultUnencodable = -1

// The codes of a stored failure.
const (
	CodeError       = "error"       // the handler returned an unmarked error
	CodePermanent   = "permanent"   // the handler returned an error marked by idem.Permanent
	CodePanic       = "panic"       // the handler panicked
	CodeExhausted   = "exhausted"   // no attempts were left: the last one failed, or processes died
	CodeUnavailable = "unavailable" // the handler returned an error marked by idem.Unavailable
	CodeCallFailed  = "call-failed" // a call of several tasks failed as a whole: no evidence against this one
	// CodeOutcomeUnknown: an attempt may have had its effect (idem.ErrOutcomeUnknown).
	CodeOutcomeUnknown = "outcome-unknown"
	// CodeResolved: an operator has found out that an attempt of unknown outcome had no effect.
	CodeResolved = "resolved"
)

// MaxFailureMessage is the maximum size in bytes of a stored failure message.
const MaxFailureMessage = 1024

// Failure is the stored form of an error.
type Failure struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	At      time.Time `json:"at,omitzero"` // set by the store
}

// Fingerprint is the SHA-256 of a request. A second fingerprint under the same key means that the key was
// used for a different request. The zero Fingerprint is not compared.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the SHA-256 of value. A nil value (a Kafka tombstone) has a fingerprint different
// from that of an empty value: 32 bytes of 0xFF, a SHA-256 of no known value.
func FingerprintOf(value []byte) Fingerprint {
	if value == nil {
		var f Fingerprint
		for i := range f {
			f[i] = math.MaxUint8
		}
		return f
	}
	return sha256.Sum256(value)
}

// IsZero reports whether f is the zero Fingerprint.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// Matches reports whether f and g may belong to the same request: they are equal, or one of them is zero.
func (f Fingerprint) Matches(g Fingerprint) bool { return f == g || f.IsZero() || g.IsZero() }

// String returns f in hexadecimal, or "" if it is zero.
func (f Fingerprint) String() string {
	if f.IsZero() {
		return ""
	}
	return hex.EncodeToString(f[:])
}

// MarshalText returns f in hexadecimal.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
