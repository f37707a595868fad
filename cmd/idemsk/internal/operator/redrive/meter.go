package redrive

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
)

// meter shows how far a run is, on a terminal. A nil meter shows nothing.
type meter struct {
	streams command.Streams
	begun   time.Time
	live    *term.Live // nil while other text is printed

	mu     sync.Mutex
	counts map[Outcome]int
}

// newMeter starts a meter, unless standard error is no terminal or each result is printed on one.
func newMeter(s command.Streams, results bool) *meter {
	if !term.IsTerminal(s.Err) || results && term.IsTerminal(s.Out) {
		return nil
	}
	return startMeter(s)
}

func startMeter(s command.Streams) *meter {
	m := &meter{streams: s, begun: time.Now(), counts: make(map[Outcome]int)}
	m.start()
	return m
}

func (m *meter) start() {
	m.live = term.StartLive(m.streams.Err, func(term.Room) []string { return []string{m.line()} }, m.line)
}

// count counts a result.
func (m *meter) count(o Outcome) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.counts[o]++
	}
}

// pause removes the line until the returned function is called.
func (m *meter) pause() (resume func()) {
	if m == nil || m.live == nil {
		return func() {}
	}
	m.stop()
	return m.start
}

// stop removes the line.
func (m *meter) stop() {
	if m != nil && m.live != nil {
		m.live.Stop()
		m.live = nil
	}
}

func (m *meter) line() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := 0
	for _, n := range m.counts {
		total += n
	}
	took := time.Since(m.begun)
	if total == 0 {
		return fmt.Sprintf("reading the dead letters: %v", took.Round(time.Second))
	}
	return fmt.Sprintf("%s; %v, %.1f/s; Ctrl-C stops",
		strings.Join(countsText(m.counts), ", "), took.Round(time.Second), float64(total)/took.Seconds())
}
