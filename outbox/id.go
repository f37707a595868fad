package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// newID returns a UUID of version 7 (RFC 9562): the time in ms, its fraction in 12 bits, and 62 random bits. The IDs of one
// host grow with time, so an index appends them at its end.
func newID() string {
	var id [16]byte
	now := time.Now()
	fraction := now.Nanosecond() % int(time.Millisecond) << 12 / int(time.Millisecond)
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|7<<12|uint64(fraction))
	_, _ = rand.Read(id[8:]) // never fails
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
