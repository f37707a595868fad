package kafkatime

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// fetched returns a record as the client makes it of Kafka's timestamp.
func fetched(ms int64) *kgo.Record { return &kgo.Record{Timestamp: time.Unix(0, ms*1e6)} }

var now = time.Date(2026, 11, 28, 16, 0, 0, 123456789, time.UTC)

// The guess is right for producers that take seconds, milliseconds, micro- or nanoseconds for the unit, and
// for the ends of the calendars of databases.
func TestGuess(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, off := range []time.Duration{0, 1, time.Microsecond, -time.Second, time.Hour, -30 * 24 * time.Hour, year, 4 * year} {
		at := now.Add(off)
		for unit, ms := range map[string]int64{
			"s": at.Unix(), "ms": at.UnixMilli(), "µs": at.UnixMicro(), "ns": at.UnixNano(),
		} {
			if got := guess(fetched(ms), now); got != ms {
				t.Errorf("%s, %v from now: %d; want %d", unit, off, got, ms)
			}
		}
	}
	for _, ms := range []int64{0, -1, -5, 1, math.MaxInt64 / 1_000_000, math.MaxInt64/1_000_000 + 1,
		math.MinInt64 / 1_000_000, 253_402_300_799_999} {
		if got := guess(fetched(ms), now); got != ms {
			t.Errorf("%d ms are %d", ms, got)
		}
	}
}

// With a timestamp that is not far away, every one is found.
func TestNear(t *testing.T) {
	for _, ms := range []int64{0, -1, 1, 1_700_000_000_000, 1_700_000_000_000_000_123, math.MaxInt64, math.MinInt64,
		5_000_000_000_000_000, math.MaxInt64 - period} {
		for _, off := range []int64{0, 1, -1, 12345, period/2 - 1, -period/2 + 1} {
			if known := ms - off; (known < ms) == (off > 0) || off == 0 { // it does not overflow
				if got := near(fetched(ms), known); got != ms {
					t.Errorf("%d, %d after a known one: %d", ms, off, got)
				}
			}
		}
		if !Is(fetched(ms), ms) || Is(fetched(ms), ms+1) {
			t.Errorf("%d is another timestamp", ms)
		}
	}
}
