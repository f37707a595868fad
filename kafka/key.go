package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/rawjson"
)

// ErrNoKey means that a record has no idempotency key.
var ErrNoKey = errors.New("the record has no idempotency key")

// KeyFunc returns a record's idempotency key. A function that waits for something, such as a schema registry,
// must return when ctx ends (see PrepareTime). It is called for the records of several partitions at once.
//
// After ErrNoKey (wrapped) Config.MissingKey applies. After an error that is marked by idem.Unavailable the
// record is retried, and the attempt is not counted. After any other error it is sent to the dead letters.
type KeyFunc func(ctx context.Context, r *Record) (string, error)

// RecordKey returns the key of the Kafka record. A null or empty key is ErrNoKey.
func RecordKey(_ context.Context, r *Record) (string, error) {
	if len(r.Key) == 0 {
		return "", fmt.Errorf("%w: its Kafka key is empty", ErrNoKey)
	}
	return string(r.Key), nil
}

// ValueHashKey returns the SHA-256 of the value in hexadecimal: records with the same value are the same
// request. A tombstone is ErrNoKey.
func ValueHashKey(_ context.Context, r *Record) (string, error) {
	if r.Value == nil {
		return "", fmt.Errorf("%w: it is a tombstone, which has no value to hash", ErrNoKey)
	}
	return hashText(r.Value), nil
}

func hashText(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// ValueHashJSONKey returns a KeyFunc that returns the SHA-256, in hexadecimal, of the value's canonical JSON
// (RFC 8785): the order of members, white space and the notation of numbers and strings do not matter. With
// paths it hashes the canonical JSON of the array of the elements at these paths, so that other elements do
// not matter either. A tombstone, and a missing or null element, is ErrNoKey. Any other value without a
// canonical form is an error: one that is not JSON, has two members of one name in an object, a text with
// U+FFFD (see JSONKey), a whole number that a double does not hold exactly, or more than 100,000 elements in
// lists and objects. Other numbers are rounded to doubles.
//
// Values of one key may differ in their bytes, so Config.Fingerprint should be NoFingerprint, or that of
// other elements. ValueHashJSONKey returns an error for an invalid path.
func ValueHashJSONKey(paths ...string) (KeyFunc, error) {
	var parsed []path
	if len(paths) > 0 {
		var err error
		if parsed, err = parsePaths(paths); err != nil {
			return nil, err
		}
	}
	return func(_ context.Context, r *Record) (string, error) {
		text, err := document(r.Value)
		if err != nil {
			return "", err
		}
		hashed, err := decodeUnique(text)
		if err != nil {
			return "", err
		}
		if len(parsed) > 0 {
			if hashed, err = decodedAt(text, parsed, decodeUnique); err != nil {
				return "", err
			}
		}
		canonical, err := appendCanonical(make([]byte, 0, len(r.Value)), hashed)
		if err != nil {
			return "", fmt.Errorf("the idempotency key can't be computed: %w", err)
		}
		return hashText(canonical), nil
	}, nil
}

// OffsetKey returns topic-partition@offset@timestamp. It protects against redeliveries, but not against a
// producer that sends a message twice.
func OffsetKey(_ context.Context, r *Record) (string, error) { return place(r), nil }

// JSONKey returns a KeyFunc that reads the key from the value, at one or more paths such as $.payment.id or
// $.items[0]['sku']. With one path the key is the text of the scalar at the path. With several it is a JSON
// array of the elements. A missing or null element is ErrNoKey. A text with U+FFFD is an error: JSON decoders
// put it in the place of what is not UTF-8, so different keys would be the same. So are more than 100,000
// elements within those of several paths. JSONKey returns an error for an invalid path.
func JSONKey(paths ...string) (KeyFunc, error) {
	parsed, err := parsePaths(paths)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, r *Record) (string, error) {
		doc, err := document(r.Value)
		if err != nil {
			return "", err
		}
		key, err := keyText(doc, parsed)
		if err == nil && strings.ContainsRune(key, utf8.RuneError) {
			return "", fmt.Errorf("the idempotency key %w", errAmbiguousText)
		}
		return key, err
	}, nil
}

func keyText(doc []byte, paths []path) (string, error) {
	if len(paths) == 1 {
		return scalarText(doc, paths[0])
	}
	found, err := decodedAt(doc, paths, decodeElement)
	if err != nil {
		return "", err
	}
	key, err := json.Marshal(found)
	if err != nil {
		return "", fmt.Errorf("the idempotency key can't be encoded: %w", err)
	}
	return string(key), nil
}

// scalarText returns the text of the element at a path: a number as it was written, a string without quotes.
func scalarText(doc []byte, p path) (string, error) {
	element, err := p.find(doc)
	if err != nil {
		return "", err
	}
	switch element[0] {
	case '{', '[':
		return "", fmt.Errorf("%s is an object or an array: an idempotency key must be a string, a number or a boolean; "+
			"name several paths for a composite key", p)
	case '"':
		text := rawjson.Text(element)
		if text == "" {
			return "", fmt.Errorf("%w: %s is empty", ErrNoKey, p)
		}
		return text, nil
	}
	return string(element), nil
}

// FingerprintFunc returns a record's fingerprint. An error has the same effects as one of a KeyFunc, except
// ErrNoKey: the record is sent to the dead letters.
type FingerprintFunc func(ctx context.Context, r *Record) (store.Fingerprint, error)

// ValueFingerprint returns the fingerprint of the value's bytes.
func ValueFingerprint(_ context.Context, r *Record) (store.Fingerprint, error) {
	return store.FingerprintOf(r.Value), nil
}

// NoFingerprint returns no fingerprint, so that values are not compared.
func NoFingerprint(context.Context, *Record) (store.Fingerprint, error) {
	return store.Fingerprint{}, nil
}

// JSONFingerprint returns a FingerprintFunc for the elements at the paths in the value. Use it if the values
// of one request differ between deliveries in other elements. A missing element counts as null. An element
// with U+FFFD is an error: JSON decoders put it in the place of what is not UTF-8, so different values would
// have one fingerprint. So are more than 100,000 elements within those at the paths.
func JSONFingerprint(paths ...string) (FingerprintFunc, error) {
	parsed, err := parsePaths(paths)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, r *Record) (store.Fingerprint, error) {
		if r.Value == nil {
			return store.FingerprintOf(nil), nil
		}
		doc, err := document(r.Value)
		if err != nil {
			return store.Fingerprint{}, err
		}
		found, err := decodedAt(doc, parsed, decodeElement)
		if err != nil && !errors.Is(err, ErrNoKey) {
			return store.Fingerprint{}, err
		}
		text, err := json.Marshal(found)
		if err != nil {
			return store.Fingerprint{}, fmt.Errorf("the fingerprint can't be encoded: %w", err)
		}
		if bytes.ContainsRune(text, utf8.RuneError) {
			return store.Fingerprint{}, fmt.Errorf("the text of the fingerprint %w", errAmbiguousText)
		}
		return store.FingerprintOf(text), nil
	}, nil
}

// OfValue returns a KeyFunc or FingerprintFunc that first converts the value, for example to JSON, and then
// calls f with a copy of the record that has the converted value. An error of convert is its error.
func OfValue[T any](
	convert func(ctx context.Context, r *Record) ([]byte, error),
	f func(ctx context.Context, r *Record) (T, error),
) func(ctx context.Context, r *Record) (T, error) {
	return func(ctx context.Context, r *Record) (T, error) {
		value, err := convert(ctx, r)
		if err != nil {
			var none T
			return none, err
		}
		converted := *r
		converted.Value = value
		return f(ctx, &converted)
	}
}
