package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKeyBytes is the length of the longest key that is stored as it is. (DynamoDB allows 2,048 bytes in a partition key;
// half of that leaves every store room for a prefix.)
const MaxKeyBytes = 1024

// hashedPrefix begins the stored form of a hashed key. A plain key that begins so is hashed too, so that nobody can write
// a key that looks like the hash of another.
const hashedPrefix = "sha256:"

// StoreKey returns the form in which a key is stored: the key itself, or "sha256:" and its SHA-256 in hexadecimal if it is
// longer than MaxKeyBytes, is not valid UTF-8, or hash asks for it. An empty key is ErrInvalidKey.
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

// IsHashed reports whether a stored key is the hash of one.
func IsHashed(stored string) bool { return strings.HasPrefix(stored, hashedPrefix) }
