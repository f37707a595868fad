//go:build rest

package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// What is measured of a process, in the order of a sample. The runtime's traces have the heap and the
// goroutines: the program has no hook for the test.
var series = [...]struct {
	name  string
	slack int // a growth that is no leak, because the number is small or coarse
}{
	{"RSS in KiB", 4 << 10}, {"live heap in MiB", 2}, {"goroutines", 10}, {"file descriptors", 10},
}

// traces is the value of GODEBUG: a line after each garbage collection, and each tenth of a second a list of
// the goroutines.
const traces = "gctrace=1,schedtrace=100,scheddetail=1"

// sample has a value of each series.
type sample [len(series)]int

// watch collects what the process says in its traces.
type watch struct {
	heard chan struct{} // receives when a list begins and take waits for it

	mu         sync.Mutex
	heap       int // after the last collection
	goroutines int // in the last complete list
	listed     int
}

var (
	collection = regexp.MustCompile(`^gc \d+ @.* \d+->\d+->(\d+) MB,`)
	goroutine  = regexp.MustCompile(`^  G\d+: status=([0-9]+)`)
)

const dead = "6" // a goroutine that has ended, whose memory is kept for another one

// line takes a line of the function's standard error.
func (w *watch) line(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := collection.FindSubmatch(line); m != nil {
		w.heap, _ = strconv.Atoi(string(m[1]))
	}
	if m := goroutine.FindSubmatch(line); m != nil && string(m[1]) != dead {
		w.listed++
	}
	if bytes.HasPrefix(line, []byte("SCHED ")) {
		w.goroutines, w.listed = w.listed, 0
		select {
		case w.heard <- struct{}{}:
		default:
		}
	}
}

// take returns the present values. It waits for the beginning and the end of a list.
func (w *watch) take(t *testing.T, pid int) (s sample) {
	t.Helper()
	for range 2 {
		select {
		case <-w.heard:
		case <-time.After(time.Minute):
			t.Fatalf("process %d wrote no list of its goroutines", pid)
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if kb, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			s[0], _ = strconv.Atoi(strings.Fields(kb)[0])
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || s[0] == 0 || len(files) == 0 {
		t.Fatalf("process %d has an RSS of %d KiB and %d file descriptors: %v", pid, s[0], len(files), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s[1], s[2], s[3] = w.heap, w.goroutines, len(files)
	return s
}

// growth describes the series that have grown by more than 10%. The first half of the samples is the warm-up.
// The lowest values of the third and the fourth quarter are compared: what a batch uses is not counted.
func growth(samples []sample) (grown []string) {
	half := samples[len(samples)/2:]
	third, fourth := half[:len(half)/2], half[len(half)/2:]
	for i, of := range series {
		least := func(samples []sample) int {
			return slices.MinFunc(samples, func(a, b sample) int { return a[i] - b[i] })[i]
		}
		before, after := least(third), least(fourth)
		if after > before+before/10+of.slack {
			grown = append(grown, fmt.Sprintf("%s: from %d to %d", of.name, before, after))
		}
	}
	return grown
}
