//go:build rest

package torture_test

import (
	"bytes"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
)

// ending is what a process was told.
type ending int

const (
	running  ending = iota
	killed          // by SIGKILL; it is started again
	restarts        // by SIGTERM
	leaves          // by SIGTERM; it is not started again
)

// member is a process of the group: one after another, if it is killed or ended.
type member struct {
	number  int
	process *subprocess.Process
	begun   *atomic.Bool // it was assigned partitions, so it handles signals
	// no broker answered when it began: it ends, as documented, if the broker takes longer to start
	refused *atomic.Bool
	ending  ending
	until   time.Time // the end of its pause; zero if it is not paused
}

// join starts another process.
func (r *run) join() {
	m := &member{number: len(r.members) + 1}
	r.start(m)
	r.members = append(r.members, m)
}

func (r *run) start(m *member) {
	program, err := os.Executable()
	if err != nil {
		r.Fatal(err)
	}
	begun, refused := new(atomic.Bool), new(atomic.Bool)
	number := m.number
	m.begun, m.refused, m.ending = begun, refused, running
	m.process, err = subprocess.Start([]string{program}, r.environment, func(line []byte) {
		begun.Store(begun.Load() || bytes.Contains(line, []byte(`"msg":"partitions assigned"`)))
		refused.Store(refused.Load() || bytes.Contains(line, []byte("consumer: no broker of ")))
		r.log.line(number, line)
	})
	if err != nil {
		r.Fatal(err)
	}
}

// works reports whether the process handles records.
func (m *member) works() bool {
	return m.begun.Load() && m.ending == running && !m.paused() && !m.ended()
}

func (m *member) ended() bool {
	select {
	case <-m.process.Ended():
		return true
	default:
		return false
	}
}

func (m *member) end(how ending) {
	m.ending = how
	if how == killed {
		m.process.Signal(syscall.SIGKILL)
		return
	}
	m.process.Signal(syscall.SIGTERM)
}

func (m *member) paused() bool { return !m.until.IsZero() }

func (m *member) pause(d time.Duration) {
	m.until = time.Now().Add(d)
	m.process.Signal(syscall.SIGSTOP)
}

func (m *member) resume() {
	if m.paused() {
		m.until = time.Time{}
		m.process.Signal(syscall.SIGCONT)
	}
}

// keep continues processes whose pause is over, and starts those again that have ended. A process that ends
// by itself, or does not drain, fails the test.
func (r *run) keep() {
	r.members = slices.DeleteFunc(r.members, func(m *member) bool {
		if m.paused() && time.Now().After(m.until) {
			m.resume()
		}
		if !m.ended() {
			return false
		}
		if status, ok := m.process.Status(); !m.refused.Load() &&
			(m.ending == running || !ok && m.ending != killed) {
			r.Errorf("process %d ended with %s; its log is %s", m.number, status, r.log.path)
		}
		if m.ending == leaves {
			return true
		}
		r.start(m)
		return false
	})
}

func (r *run) killAll() {
	for _, m := range r.members {
		m.process.Signal(syscall.SIGKILL)
		<-m.process.Ended()
	}
}
