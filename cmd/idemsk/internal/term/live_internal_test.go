package term

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBlockIsRedrawnInPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		blocks := [][]string{{"a", strings.Repeat("x", 100), "three", "rows are all there are"}, {"b"}, {"c"}}
		n := 0
		l := &Live{notes: make(chan string), stop: make(chan struct{}), stopped: make(chan struct{})}
		go func() {
			defer close(l.stopped)
			l.redraw(&out, func() Room { return Room{Columns: 79, Rows: 3} }, func(room Room) []string {
				if room.Rows != 3 {
					t.Errorf("the block gets %+v", room)
				}
				n++
				return blocks[n-1]
			})
		}()
		time.Sleep(2*blockEvery + blockEvery/2) //nolint:forbidigo // synctest's clock
		l.Say("note")
		time.Sleep(blockEvery) //nolint:forbidigo // as above
		l.Stop()
		want := "a\n" + strings.Repeat("x", 78) + "…\nthree\n" + "\x1b[3A\r\x1b[Jb\n" +
			"\x1b[1A\r\x1b[Jnote\n" + "c\n" + "\x1b[1A\r\x1b[J"
		if out.String() != want {
			t.Errorf("drawn %q\nwant  %q", out.String(), want)
		}
		l.Say("too late") // which must not block
	})
}

func TestLineIsWrittenIfItHasChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := 0
		l := StartLive(&out, func(Room) []string {
			t.Error(
				"a block, where there is no terminal")
			return nil
		}, func() string { n++; return "line " + string(rune('0'+n/2)) })
		time.Sleep(lineEvery + lineEvery/2) //nolint:forbidigo // synctest's clock
		l.Say("note")
		time.Sleep(2 * lineEvery) //nolint:forbidigo // as above
		l.Stop()
		if want := "line 0\nnote\nline 1\n"; out.String() != want {
			t.Errorf("%q, want %q", out.String(), want)
		}
	})
}
