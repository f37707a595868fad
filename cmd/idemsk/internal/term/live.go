package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// The intervals at which a block is redrawn on a terminal, and a line is written elsewhere.
const (
	blockEvery = 250 * time.Millisecond
	lineEvery  = 2 * time.Second
)

// StartLive shows a view until Stop: on a terminal a block of lines, redrawn in place and cut to the room;
// elsewhere one line at an interval. block and line are called by another goroutine. They return escaped
// lines.
func StartLive(w io.Writer, block func(room Room) []string, line func() string) *Live {
	live := IsTerminal(w) && os.Getenv("TERM") != "dumb"
	l := &Live{notes: make(chan string), stop: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(l.stopped)
		if live {
			l.redraw(w, func() Room { return roomOf(w) }, block)
		} else {
			l.follow(w, line)
		}
	}()
	return l
}

// Live is a view that is being shown.
type Live struct {
	notes   chan string
	stop    chan struct{}
	stopped chan struct{}
}

// Say writes a line above the view. It may be called until Stop.
func (l *Live) Say(line string) {
	select {
	case l.notes <- line:
	case <-l.stopped:
	}
}

// Stop ends the view and erases it on a terminal. It is called once.
func (l *Live) Stop() {
	close(l.stop)
	<-l.stopped
}

// redraw draws the block over the previous one.
func (l *Live) redraw(w io.Writer, measure func() Room, block func(Room) []string) {
	ticker := time.NewTicker(blockEvery)
	defer ticker.Stop()
	drawn := 0
	for {
		select {
		case <-l.stop:
			_, _ = io.WriteString(w, erase(drawn)) // a failure to write is ignored
			return
		case note := <-l.notes:
			_, _ = io.WriteString(w, erase(drawn)+Fold(note, measure().Columns)+"\n")
			drawn = 0
		case <-ticker.C:
			room := measure()
			lines := room.cut(block(room))
			_, _ = io.WriteString(w, erase(drawn)+strings.Join(append(lines, ""), "\n"))
			drawn = len(lines)
		}
	}
}

// erase returns the sequence that erases the last lines.
func erase(lines int) string {
	if lines == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", lines)
}

// follow writes the line if it has changed, or is followed by another one.
func (l *Live) follow(w io.Writer, line func() string) {
	ticker := time.NewTicker(lineEvery)
	defer ticker.Stop()
	before := ""
	for {
		select {
		case <-l.stop:
			return
		case note := <-l.notes:
			_, _ = fmt.Fprintln(w, note)
		case <-ticker.C:
			text := line()
			first, _, more := strings.Cut(text, "\n")
			if first != before || more {
				_, _ = fmt.Fprintln(w, text)
			}
			before = first
		}
	}
}
