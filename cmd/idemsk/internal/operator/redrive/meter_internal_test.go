package redrive

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
)

// The line of a run changes with its results, and makes room for tables. It is written elsewhere than on a
// terminal here: in lines.
func TestMeter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var screen bytes.Buffer
		s := command.Streams{Out: &screen, Err: &screen}
		out := output{streams: s, meter: startMeter(s)}
		sleep := func(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // synctest's clock
		sleep(3 * time.Second)
		for range 3 {
			out.add(Result{Outcome: Redriven, Source: "payments-0@1"})
		}
		out.add(Result{Outcome: NotRedriven, Source: "payments-0@2"})
		sleep(5 * time.Second)
		if err := out.finish(Passed{}, nil); err == nil {
			t.Error("a letter was not redriven, and there is no error")
		}
		sleep(time.Minute)
		want := "reading the dead letters: 2s\n" +
			"3 redriven, 1 not redriven; 4s, 1.0/s; Ctrl-C stops\n" +
			"3 redriven, 1 not redriven; 6s, 0.7/s; Ctrl-C stops\n" +
			"3 redriven, 1 not redriven; 8s, 0.5/s; Ctrl-C stops\n" +
			"OUTCOME       RECORD        KEY  WHERE  HAD FAILED BY\n" +
			"redriven      payments-0@1\n"
		if got := screen.String(); len(got) < len(want) || got[:len(want)] != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	})
}

// A meter is shown again after a table, and none is shown without a terminal.
func TestMeterMakesRoomForTables(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	s := command.Streams{Out: &screen, Err: &screen}
	m := startMeter(s)
	resume := m.pause()
	if m.live != nil {
		t.Error("the line is shown while a table is printed")
	}
	resume()
	if m.live == nil {
		t.Error("the line is not shown again")
	}
	m.stop()
	if m.pause(); m.live != nil || newMeter(s, false) != nil {
		t.Error("the line is shown after its end, or without a terminal")
	}
}
