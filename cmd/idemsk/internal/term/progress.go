package term

import (
	"fmt"
	"io"
	"os"
	"time"
)

// The intervals at which progress is redrawn on a terminal, and written as a line elsewhere.
const (
	redrawEvery = 100 * time.Millisecond
	lineEvery   = 2 * time.Second
)

// liveWidth fits a terminal of 80 columns. A line that wraps can't be redrawn.
const liveWidth = 79

// clearLine moves to the start of the line and erases it.
const clearLine = "\r\x1b[K"

// Progress shows the progress of a long operation in a line.
type Progress struct {
	stop    chan struct{}
	stopped chan struct{}
}

// StartProgress shows the result of line at an interval until Stop. line is called by another goroutine.
func StartProgress(w io.Writer, line func() string) *Progress {
	p := &Progress{stop: make(chan struct{}), stopped: make(chan struct{})}
	live := IsTerminal(w) && os.Getenv("TERM") != "dumb"
	go func() {
		defer close(p.stopped)
		p.show(w, line, live)
	}()
	return p
}

func (p *Progress) show(w io.Writer, line func() string, live bool) {
	every, format := lineEvery, "%s\n"
	if live {
		every, format = redrawEvery, clearLine+"%s"
		defer func() { _, _ = io.WriteString(w, clearLine) }()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	before := ""
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			text := Escape(line())
			if live {
				text = Cut(text, liveWidth)
			}
			if text != before {
				_, _ = fmt.Fprintf(w, format, text) // a failure to write is ignored
			}
			before = text
		}
	}
}

// Stop ends the progress, and returns when the line is gone. It is called once.
func (p *Progress) Stop() {
	close(p.stop)
	<-p.stopped
}

// IsTerminal reports whether w, or the reader r passed as one, is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
