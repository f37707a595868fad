package serverproc

import (
	"io"
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

var _ io.Writer = (*logTail)(nil)

func newLogTail(marker *regexp.Regexp) *logTail {
	return &logTail{marker: marker, ready: make(chan struct{})}
}

// Write implements io.Writer.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if l.match == "" {
		if m := l.marker.FindSubmatch(l.text); m != nil {
			l.match = string(m[len(m)-1])
			close(l.ready)
		}
	}
	if cut := len(l.text) - logTailSize; cut > 0 {
		l.text = slices.Delete(l.text, 0, cut)
	}
	return len(p), nil
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
