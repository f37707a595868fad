package consumer

import (
	"log/slog"
	"sync"
	"time"
)

// seldomInterval is the least time between two lines about the same thing.
const seldomInterval = 10 * time.Second

// limiter bounds the rate of lines about errors that repeat.
type limiter struct {
	mu   sync.Mutex
	last map[string]*told // by subject; the subjects are bounded by the partitions
}

type told struct {
	at      time.Time
	omitted int
}

func newLimiter() *limiter { return &limiter{last: make(map[string]*told)} }

// warn writes a line, unless there was one about the subject within seldomInterval.
func (l *limiter) warn(log *slog.Logger, subject, msg string, args ...any) {
	omitted, ok := l.allow(subject, seldomInterval)
	if !ok {
		return
	}
	if omitted > 0 {
		args = append(args, "omitted", omitted)
	}
	log.Warn(msg, args...)
}

// allow reports whether there was no line about the subject for some time, and how many were omitted.
func (l *limiter) allow(subject string, every time.Duration) (omitted int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, t := time.Now(), l.last[subject]
	if t == nil {
		t = new(told)
		l.last[subject] = t
	} else if now.Sub(t.at) < every {
		t.omitted++
		return 0, false
	}
	omitted = t.omitted
	t.at, t.omitted = now, 0
	return omitted, true
}
