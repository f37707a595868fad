package local

import (
	"io"
	"sync"
)

// lineWriter writes the lines of several processes to one log.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// line writes a line and a newline. It ignores errors, so that they do not end the run.
func (l *lineWriter) line(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.w.Write(append(line[:len(line):len(line)], '\n'))
}
