package local

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/metrics"
	"github.com/idemsk/idemsk/internal/subprocess"
)

// member is one of the processes of consumers: one after another, if it is killed. Only output is safe for
// concurrent use.
type member struct {
	number   int
	process  *subprocess.Process // nil before the first start
	killed   bool                // on purpose
	paused   bool
	until    time.Time        // the end of the pause
	outcomes metrics.Outcomes // of the process, as it last said

	output
}

// output is what a process prints.
type output struct {
	mu      sync.Mutex
	last    string // its last line
	address string // of its metrics
}

func (m *member) start(command, env []string, log *lineWriter) (err error) {
	m.reset()
	m.killed, m.paused = false, false
	m.process, err = subprocess.Start(command, env, func(line []byte) { m.line(line); log.line(line) })
	return err
}

func (m *member) hasEnded() bool {
	select {
	case <-m.process.Ended():
		return true
	default:
		return false
	}
}

func (m *member) kill() {
	m.killed = true
	m.process.Signal(syscall.SIGKILL)
}

func (m *member) pause(until time.Time) {
	m.paused, m.until = true, until
	m.process.Signal(syscall.SIGSTOP)
}

// continueAt continues the process if it is paused and its time has come.
func (m *member) continueAt(now time.Time) {
	if m.paused && !now.Before(m.until) {
		m.paused = false
		m.process.Signal(syscall.SIGCONT)
	}
}

// scrape reads the counts of the process. They stay as they are if it does not answer.
func (m *member) scrape(ctx context.Context, client *http.Client) {
	address := m.metricsAddress()
	if address == "" || m.paused {
		return
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // it has ended, or is about to
	}
	defer func() { _ = resp.Body.Close() }()
	if o, err := metrics.ParseText(resp.Body); err == nil {
		m.outcomes = o
	}
}

func (o *output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.address = "", ""
}

// line takes a line. Package app/process logs where it serves the metrics.
func (o *output) line(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = string(line)
	var said struct{ Msg, Address string }
	if bytes.Contains(line, []byte("/metrics")) && json.Unmarshal(line, &said) == nil && said.Address != "" {
		o.address = said.Address
	}
}

func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (o *output) metricsAddress() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.address
}
