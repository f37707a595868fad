package serverproc

import (
	"bytes"
	"io"
	"slices"
	"sync"
)

const logTailSize = 64 << 10

// logTail keeps the end of a log, and signals when the server logs that it is ready.
type logTail struct {
	mu     sync.Mutex
	text   []byte
	marker []byte
	once   sync.Once
	ready  chan struct{}
}

var _ io.Writer = (*logTail)(nil)

func newLogTail(marker string) *logTail {
	return &logTail{marker: []byte(marker), ready: make(chan struct{})}
}

// Write implements io.Writer.
func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if bytes.Contains(l.text, l.marker) {
		l.once.Do(func() { close(l.ready) })
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
