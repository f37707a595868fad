// Package uuid makes UUIDs (RFC 9562).
package uuid

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// The versions.
const (
	byTime = 7
	custom = 8
)

// New returns a UUID of version 7: the time in ms, its fraction in 12 bits, and 62 random bits. The IDs of
// one host grow with time, so an index appends them at its end.
func New() string {
	var id [16]byte
	now := time.Now()
	fraction := now.Nanosecond() % int(time.Millisecond) << 12 / int(time.Millisecond)
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|uint64(fraction))
	_, _ = rand.Read(id[8:]) // never fails
	return text(id, byTime)
}

// Of returns the UUID of version 8 that has the first bytes of a hash.
func Of(hash [32]byte) string { return text([16]byte(hash[:16]), custom) }

// text sets the version and the variant and returns the text.
func text(id [16]byte, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for i, n := range [...]int{4, 2, 2, 2, 6} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		from := (at - i) / 2
		at += hex.Encode(text[at:], id[from:from+n])
	}
	return string(text[:])
}
