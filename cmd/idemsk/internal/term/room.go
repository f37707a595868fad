package term

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Room is the part of a terminal that a block may fill. Lines that wrap or scroll off the top can't be
// redrawn. The last row is for the cursor.
type Room struct{ Columns, Rows int }

// liveWidth fits a terminal of 80 columns. A line that wraps can't be redrawn.
const liveWidth = 79

// usualRoom returns the room of a terminal of 80 columns and 24 rows.
func usualRoom() Room { return Room{Columns: liveWidth, Rows: 23} }

// roomOf returns the current room of a terminal.
func roomOf(w io.Writer) Room {
	f, ok := w.(*os.File)
	if !ok {
		return usualRoom()
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 { // its size is unknown
		return usualRoom()
	}
	return Room{Columns: max(1, int(size.Col)-1), Rows: max(1, int(size.Row)-1)}
}

// FoldFor folds a text to the width of w if w is a terminal, which would break lines within words.
func FoldFor(w io.Writer, text string) string {
	if !IsTerminal(w) {
		return text
	}
	return Fold(text, roomOf(w).Columns)
}

// cut cuts the lines of a block to the room.
func (r Room) cut(lines []string) []string {
	lines = lines[:min(len(lines), r.Rows)]
	fitting := make([]string, 0, len(lines)+1)
	for _, line := range lines {
		fitting = append(fitting, Cut(line, r.Columns))
	}
	return fitting
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
