package flags

import (
	"fmt"
	"time"
)

// ParseTime parses a time, or a duration before now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf(
		"want a time like 2026-01-02T15:04:05Z or 2026-01-02 (UTC), or a duration like 90m")
}

// DefaultLimit is the default of --limit.
const DefaultLimit = 100
