//go:build linux

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// script starts a peer that is a shell script, on the last core.
func script(t *testing.T, text string) *process {
	t.Helper()
	available, err := cores()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	p, err := start(ctx, "a peer: 1", available[len(available)-1], t.TempDir(), []string{"A=b"},
		[]string{"sh", "-c", text})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p
}

func TestAPeerIsLoadedRunAndEnded(t *testing.T) {
	p := script(t, `while read command file; do
		case $command in
		load) echo "{}" ;;
		run) i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; echo '{"handled":3}' ;;
		esac
	done`)
	if err := p.load("event.json"); err != nil {
		t.Fatal(err)
	}
	before, err := p.cpu()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.run(3); err != nil {
		t.Fatal(err)
	}
	after, err := p.cpu()
	if err != nil || after <= before {
		t.Errorf("CPU time went from %v to %v, %v", before, after, err)
	}
	if peak, err := p.peakMemory(); err != nil || peak < 100<<10 {
		t.Errorf("peak memory: %d, %v", peak, err)
	}
	if err := p.run(4); err == nil || !strings.Contains(err.Error(), "handled 3 records; want 4") {
		t.Errorf("a peer that handled too few: %v", err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

func TestAPeerIsPinnedAndHasItsEnvironment(t *testing.T) {
	p := script(t, `grep Cpus_allowed_list: /proc/self/status; echo $A`)
	line, err := p.line()
	if err != nil {
		t.Fatal(err)
	}
	available, _ := cores()
	if list := strings.Fields(line); len(list) != 2 || list[1] != strings.TrimSpace(list[1]) ||
		strings.ContainsAny(list[1], ",-") {
		t.Errorf("the peer may run on %q; want one core of %v", line, available)
	}
	if a, err := p.line(); err != nil || a != "b" {
		t.Errorf("A is %q, %v", a, err)
	}
	if now, err := cores(); err != nil || !slices.Equal(now, available) {
		t.Errorf("the test's own cores changed from %v to %v, %v", available, now, err)
	}
}

func TestAPeerThatBreaksIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		`exit 3`:                       "a peer: 1",
		`read line; echo "handled: 3"`: "want how many records were handled",
		`read line; echo "{}"`:         "want how many records were handled",
	} {
		p := script(t, text)
		if err := p.run(3); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	p := script(t, `echo boom >&2; exit 3`)
	if _, err := p.line(); err == nil || !strings.Contains(err.Error(), p.log) ||
		!strings.HasSuffix(p.log, "/a-peer--1.log") {
		t.Errorf("error %v; want one that names the log %s", err, p.log)
	}
	if err := p.end(); err == nil {
		t.Error("a peer that ended with status 3 is said to have ended well")
	}
}

func TestOthersTimeGrowsWithWhatTheMachineDoes(t *testing.T) {
	busy, err := busyTime()
	if err != nil || busy <= 0 {
		t.Errorf("busy: %v, %v", busy, err)
	}
	since, err := watchOthers()
	if err != nil {
		t.Fatal(err)
	}
	if cores, err := since(); err != nil || cores < 0 {
		t.Errorf("others kept %v cores busy, %v", cores, err)
	}
}
