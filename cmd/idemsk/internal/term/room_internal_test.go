package term

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// The room is that of the terminal, and the usual one for other writers.
func TestRoom(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("this test needs pseudo terminals (devpts): %v", err)
	}
	defer terminal.Close()
	if got := roomOf(terminal); got != usualRoom() {
		t.Errorf("a terminal that does not know its size has %+v", got)
	}
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ,
		&unix.Winsize{Row: 10, Col: 50}); err != nil {
		t.Fatal(err)
	}
	if got, want := roomOf(terminal), (Room{Columns: 49, Rows: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := roomOf(new(bytes.Buffer)); got != usualRoom() {
		t.Errorf("what is no terminal has %+v", got)
	}
}
