package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKeyBytes is the maximum length in bytes of a key that is stored unhashed. DynamoDB allows 2,048 bytes in
// a partition key; half of that leaves room for a prefix in every store.
const MaxKeyBytes = 1024

// hashedPrefix begins the stored form of a hashed key. A plain key with this prefix is hashed too, so that no
// producer can send a key that equals the hash of another.
const hashedPrefix = "sha256:"

// Key returns the stored form of a key: the key itself, or "sha256:" and its SHA-256 in hexadecimal if it is
// longer than MaxKeyBytes, is not valid UTF-8, has the prefix "sha256:", or if hash is true. An empty key is
// ErrInvalidKey.
func Key(key string, hash bool) (string, error) {
	if key == "" {
		return "", fmt.Errorf("%w: it is empty", ErrInvalidKey)
	}
	if hash || len(key) > MaxKeyBytes || !utf8.ValidString(key) || IsHashed(key) {
		sum := sha256.Sum256([]byte(key))
		return hashedPrefix + hex.EncodeToString(sum[:]), nil
	}
	return key, nil
}

// IsHashed reports whether a stored key is a hash.
func IsHashed(stored string) bool { return strings.HasPrefix(stored, hashedPrefix) }
