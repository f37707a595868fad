package serverproc

import (
	"regexp"
	"slices"
	"sync"
)

const logTailSize = 64 << 10

// logTail keeps the end of a log, and signals when the server logs that it is ready.
type logTail struct {
	mu     sync.Mutex
	text   []byte
	marker *regexp.Regexp
	match  string // of marker
	ready  chan struct{}
}

func newLogTail(marker *regexp.Regexp) *logTail {
	return &logTail{marker: marker, ready: make(chan struct{})}
}

// line adds a line.
func (l *logTail) line(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.marker.FindSubmatch(line); m != nil && l.match == "" {
		l.match = string(m[len(m)-1])
		close(l.ready)
	}
	l.text = append(append(l.text, line...), '\n')
	if cut := len(l.text) - logTailSize; cut > 0 {
		l.text = slices.Delete(l.text, 0, cut)
	}
}

// String returns the end of the log.
func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// said returns the marker's match: its last group, or all of it.
func (l *logTail) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.match
}
