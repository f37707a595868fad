package kafka

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/idemsk/idemsk/idem/store"
)

// DefaultKeyHeader is the header that holds the idempotency key unless Config says otherwise.
const DefaultKeyHeader = "idempotency-key"

// ErrNoKey says that a record has no idempotency key where one was looked for.
var ErrNoKey = errors.New("the record has no idempotency key")

// KeyFunc returns a record's idempotency key. ErrNoKey (wrapped) is dealt with by Config.MissingKey; any other error makes
// the record one that can never succeed.
type KeyFunc func(r *Record) (string, error)

// HeaderKey takes the key from a header. A null or empty value is none; two different values are an error, as either could
// be the right one.
func HeaderKey(name string) KeyFunc {
	return func(r *Record) (string, error) {
		var key []byte
		found := false
		for i := range r.Headers {
			h := &r.Headers[i]
			if h.Key != name {
				continue
			}
			if found && !bytes.Equal(key, h.Value) {
				return "", fmt.Errorf("the header %q is there more than once, with different values: which one is the idempotency key can't be told", name)
			}
			key, found = h.Value, true
		}
		if len(key) == 0 {
			return "", fmt.Errorf("%w in the header %q", ErrNoKey, name)
		}
		return string(key), nil
	}
}

// RecordKey takes the Kafka record's key. A null or empty one is none.
func RecordKey(r *Record) (string, error) {
	if len(r.Key) == 0 {
		return "", fmt.Errorf("%w: its Kafka key is empty", ErrNoKey)
	}
	return string(r.Key), nil
}

// HashKey takes the SHA-256 of the value, in hexadecimal: records with the same value are the same request. A tombstone has
// none.
func HashKey(r *Record) (string, error) {
	if r.Value == nil {
		return "", fmt.Errorf("%w: it is a tombstone, which has no value to hash", ErrNoKey)
	}
	sum := sha256.Sum256(r.Value)
	return hex.EncodeToString(sum[:]), nil
}

// OffsetKey takes topic-partition@offset@timestamp: it protects against redelivery, not against a producer that sends twice.
func OffsetKey(r *Record) (string, error) { return place(r), nil }

// JSONKey takes the key from the value, at one or more paths like $.payment.id or $.items[0]['sku']. One path gives the
// scalar found there as text; several give a JSON array of what is found. A missing or null element is no key. It returns
// an error for a path that can't be read.
func JSONKey(paths ...string) (KeyFunc, error) {
	parsed, err := parsePaths(paths)
	if err != nil {
		return nil, err
	}
	return func(r *Record) (string, error) {
		found, err := lookup(r.Value, parsed)
		if err != nil {
			return "", err
		}
		if len(found) == 1 {
			return scalarText(found[0], parsed[0])
		}
		key, err := json.Marshal(found)
		if err != nil {
			return "", fmt.Errorf("the idempotency key can't be put together: %w", err)
		}
		return string(key), nil
	}, nil
}

// scalarText is an element's text: a number as it was written, a string without quotes.
func scalarText(v any, p path) (string, error) {
	switch v := v.(type) {
	case string:
		if v == "" {
			return "", fmt.Errorf("%w: %s is empty", ErrNoKey, p)
		}
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("%s is an object or an array: an idempotency key must be a string, a number or a boolean; "+
		"name several paths for a composite key", p)
}

// FingerprintFunc returns what a record asks for. An error makes the record one that can never succeed.
type FingerprintFunc func(r *Record) (store.Fingerprint, error)

// ValueFingerprint is the fingerprint of the value's bytes.
func ValueFingerprint(r *Record) (store.Fingerprint, error) { return store.FingerprintOf(r.Value), nil }

// NoFingerprint is none: a key is never compared.
func NoFingerprint(*Record) (store.Fingerprint, error) { return store.Fingerprint{}, nil }

// JSONFingerprint is the fingerprint of the elements at some paths of the value, for values that carry something that
// differs between deliveries of one request. A missing element counts as null.
func JSONFingerprint(paths ...string) (FingerprintFunc, error) {
	parsed, err := parsePaths(paths)
	if err != nil {
		return nil, err
	}
	return func(r *Record) (store.Fingerprint, error) {
		if r.Value == nil {
			return store.FingerprintOf(nil), nil
		}
		found, err := lookup(r.Value, parsed)
		if err != nil && !errors.Is(err, ErrNoKey) {
			return store.Fingerprint{}, err
		}
		text, err := json.Marshal(found)
		if err != nil {
			return store.Fingerprint{}, fmt.Errorf("the fingerprint can't be put together: %w", err)
		}
		return store.FingerprintOf(text), nil
	}, nil
}
