package store

import "time"

// Clock tells the time to a store that can't ask its server for it. nil means time.Now.
type Clock func() time.Time

// Now returns the clock's time.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return c()
}

// DefaultMaxClockSkew is the maximum difference expected between the clocks of two machines: one second, far
// above the difference of machines with NTP or the Amazon Time Sync Service.
const DefaultMaxClockSkew = time.Second
