package store

import "time"

// Clock tells the time to stores that have no server clock of their own. nil means time.Now.
type Clock func() time.Time

// Now returns the clock's time.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return c()
}

// DefaultMaxClockSkew is the most by which the clocks of two hosts are expected to differ: one second, far above what
// hosts with NTP or the Amazon Time Sync Service show.
const DefaultMaxClockSkew = time.Second
