// Package kafkatime reads the timestamps of records that were fetched. Kafka has milliseconds, which franz-go
// multiplies to nanoseconds: those after the year 2262, as of producers that write micro- or nanoseconds,
// overflow.
package kafkatime

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The client's multiplication by a million is one by 15,625 and a shift. An overflow loses the bits that are
// shifted out. The lower ones can be computed, because an odd factor has an inverse.
const (
	perMilli = 1_000_000
	shift    = 6
	lowBits  = 64 - shift
	period   = 1 << lowBits
	inverse  = 0x790fb65668c26139 // of perMilli >> shift, modulo 2 to the power of 64
)

// Overflowed reports whether a record does not have Kafka's timestamp any more.
func Overflowed(r *kgo.Record) bool { return r.Timestamp.UnixNano()%perMilli != 0 }

// Is reports whether the timestamp of a record can be this one of Kafka.
func Is(r *kgo.Record, ms int64) bool { return r.Timestamp.UnixNano() == ms*perMilli }

// near returns Kafka's timestamp of a record: of those that it can be, the one that is nearest to another.
// They are nine million years apart.
func near(r *kgo.Record, ms int64) int64 {
	apart := (low(r) - ms) % period // from -period to period
	switch {
	case apart > period/2:
		apart -= period
	case apart < -period/2:
		apart += period
	}
	return ms + apart
}

// Millis returns Kafka's timestamp of a record. One that overflowed is a guess: up to the year 2096 in
// microseconds it is the smallest that it can be, and else the nearest to now in nanoseconds.
func Millis(r *kgo.Record) int64 { return guess(r, time.Now()) }

func guess(r *kgo.Record, now time.Time) int64 {
	const micros2096 = 4e15
	if !Overflowed(r) {
		return r.Timestamp.UnixNano() / perMilli
	}
	if ms := low(r); ms < micros2096 {
		return ms
	}
	return near(r, now.UnixNano())
}

// low returns the lower bits of Kafka's timestamp.
func low(r *kgo.Record) int64 {
	return int64(uint64(r.Timestamp.UnixNano()) >> shift * inverse & (period - 1))
}
