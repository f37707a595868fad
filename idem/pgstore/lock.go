package pgstore

import (
	"crypto/sha256"
	"encoding/binary"
)

// lockOf returns the number of a key's advisory lock, but for the table, which the server adds (statements.lock): 64 bits of
// a hash. Where two keys share one, the second waits for the first, which does no harm.
func lockOf(key string) int64 {
	sum := sha256.Sum256([]byte("idemsk " + key))
	return int64(binary.BigEndian.Uint64(sum[:]))
}
