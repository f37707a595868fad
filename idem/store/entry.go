package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"time"
)

// Status is the stored state of a key.
type Status string

// The stored states. What some literature calls PROCESSING is STARTED with a live lease.
const (
	StatusStarted   Status = "STARTED"   // claimed; governed by its lease, or released when RetryAt is set
	StatusCompleted Status = "COMPLETED" // final until its retention is over
	StatusFailed    Status = "FAILED"    // final until its retention is over, or a redrive
)

// ParseStatus returns the status of that name, in capitals as it is stored.
func ParseStatus(s string) (Status, error) {
	switch st := Status(s); st {
	case StatusStarted, StatusCompleted, StatusFailed:
		return st, nil
	}
	return "", fmt.Errorf("idem: unknown status %q: want %s, %s or %s", s, StatusStarted, StatusCompleted, StatusFailed)
}

// Record is what a store keeps of a key. Times have millisecond precision, Expiry whole seconds.
type Entry struct {
	Key         string      `json:"idempotencyKey"`
	Status      Status      `json:"status"`
	Token       int64       `json:"version"` // the fencing token
	Owner       string      `json:"owner"`   // of the claim attempt that holds it, or held it last
	LeaseUntil  time.Time   `json:"leaseUntil,omitzero"`
	RetryAt     time.Time   `json:"retryAt,omitzero"` // set: released, not to be claimed before
	Attempts    int         `json:"attempts"`
	Fingerprint Fingerprint `json:"requestFingerprint,omitzero"`
	Result      []byte      `json:"responsePayload,omitempty"`
	// ResultOmitted is the size in bytes of a result that was too large to be stored, or ResultUnencodable.
	ResultOmitted int       `json:"resultOmitted,omitempty"`
	Failure       *Failure  `json:"failure,omitempty"` // the last one, also while STARTED
	Source        string    `json:"source,omitempty"`  // topic-partition@offset that last claimed it
	CreatedAt     time.Time `json:"createdAt,omitzero"`
	UpdatedAt     time.Time `json:"updatedAt,omitzero"`
	Expiry        time.Time `json:"expiryTimestamp,omitzero"`
}

// Released reports whether the key is STARTED but given back by its owner.
func (r *Entry) Released() bool { return r.Status == StatusStarted && !r.RetryAt.IsZero() }

// StoredResult returns the result of a COMPLETED key, or ErrResultNotStored (wrapped, with the size) if it was omitted.
func (r *Entry) StoredResult() ([]byte, error) {
	switch {
	case r.ResultOmitted == ResultUnencodable:
		return nil, fmt.Errorf("%w: it could not be encoded", ErrResultNotStored)
	case r.ResultOmitted != 0:
		return nil, fmt.Errorf("%w: it had %d bytes", ErrResultNotStored, r.ResultOmitted)
	}
	return r.Result, nil
}

// ResultUnencodable stands in Record.ResultOmitted for a result that could not be encoded.
const ResultUnencodable = -1

// The codes of a stored failure.
const (
	CodeError       = "error"       // the handler returned an error that may pass
	CodePermanent   = "permanent"   // the handler returned an error wrapped by Permanent
	CodePanic       = "panic"       // the handler panicked
	CodeExhausted   = "exhausted"   // attempts ran out: by an error with the last one, or because processes died in mid-handler
	CodeUnavailable = "unavailable" // the handler returned an error wrapped by Unavailable
)

// MaxFailureMessage is the most bytes of a failure's message that are stored.
const MaxFailureMessage = 1024

// Failure is the stored form of an error.
type Failure struct {
	Code    string    `json:"code"`
	Message string    `json:"message"`
	At      time.Time `json:"at,omitzero"` // set by the store
}

// Fingerprint is a SHA-256 over what a request asks for. A key that comes back with another fingerprint is a different
// request under a key already used. The zero Fingerprint is none: it is never compared.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the SHA-256 of value. A nil value (a Kafka tombstone) has a fingerprint of its own, unlike that
// of an empty one: 32 bytes of 0xFF, which no value is known to hash to.
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

// IsZero reports whether f is no fingerprint.
func (f Fingerprint) IsZero() bool { return f == Fingerprint{} }

// Matches reports whether f and g may belong to the same request: they are equal, or one of them is none.
func (f Fingerprint) Matches(g Fingerprint) bool { return f == g || f.IsZero() || g.IsZero() }

// String returns f in hexadecimal, "" if it is none.
func (f Fingerprint) String() string {
	if f.IsZero() {
		return ""
	}
	return hex.EncodeToString(f[:])
}

// MarshalText returns f in hexadecimal.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
