package local

import (
	"io"
	"sync"
)

// lineWriter puts lines of several processes into one log, whole.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// line writes a line without its newline. A log is not worth the run: its errors are dropped.
func (l *lineWriter) line(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(append(line[:len(line):len(line)], '\n'))
}
