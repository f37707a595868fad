package redrive

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// pace keeps the time between letters.
type pace struct {
	between time.Duration // 0 is no limit
	next    time.Time     // when the next letter may be sent
}

// newPace returns the pace of some letters a second, 0 for no limit.
func newPace(rate int) *pace {
	if rate == 0 {
		return &pace{}
	}
	return &pace{between: time.Second / time.Duration(rate)}
}

// wait waits until a letter may be sent.
func (p *pace) wait(ctx context.Context) error {
	rest := time.Until(p.next)
	if rest <= 0 {
		return nil
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sent notes that a letter is sent now.
func (p *pace) sent() {
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(p.between)
}

// parseRate reads a rate, such as 50/s.
func parseRate(text string) (int, error) {
	number, ok := strings.CutSuffix(text, "/s")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return 0, errors.New("want N/s, such as 50/s, and N of 1 or more")
	}
	return n, nil
}
