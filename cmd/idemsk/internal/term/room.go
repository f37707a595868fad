package term

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Room is how much of a terminal a block may fill so that it can be redrawn: a line that wraps, and one that has scrolled off the
// top, are out of reach. The cursor has the last row.
type Room struct{ Columns, Rows int }

// usualRoom is that of the smallest usual terminal, of 80 columns and 24 rows.
func usualRoom() Room { return Room{Columns: liveWidth, Rows: 23} }

// roomOf asks a terminal for its size, which may change.
func roomOf(w io.Writer) Room {
	f, ok := w.(*os.File)
	if !ok {
		return usualRoom()
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 { // a terminal that does not know
		return usualRoom()
	}
	return Room{Columns: max(1, int(size.Col)-1), Rows: max(1, int(size.Row)-1)}
}

// FoldFor is Fold to the width of w if that is a terminal: it would break lines in the middle of a word.
func FoldFor(w io.Writer, text string) string {
	if !IsTerminal(w) {
		return text
	}
	return Fold(text, roomOf(w).Columns)
}

// cut leaves of a block what there is room for.
func (r Room) cut(lines []string) []string {
	lines = lines[:min(len(lines), r.Rows)]
	fitting := make([]string, 0, len(lines)+1)
	for _, line := range lines {
		fitting = append(fitting, Cut(line, r.Columns))
	}
	return fitting
}
