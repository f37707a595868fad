// Package subprocess runs a program as a process that is killed, paused and ended on purpose.
package subprocess

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// Process is a process that was started. Its methods are safe for concurrent use.
type Process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a command with these variables as its whole environment (nil: that of this process). Each line
// of its output is given to line, without the newline, by one goroutine. The kernel kills the process if this
// one dies (on Linux).
func Start(command, env []string, line func([]byte)) (*Process, error) {
	return StartWithInput(command, env, nil, line)
}

// StartWithInput is Start with a standard input, which is not read ahead of the process. The caller closes
// the file.
func StartWithInput(command, env []string, input *os.File, line func([]byte)) (*Process, error) {
	p := &Process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})} //nolint:gosec,noctx // the caller's program, which Signal ends
	out := &lines{each: line}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, out, out
	if input != nil {
		p.cmd.Stdin = input
	}
	p.cmd.SysProcAttr = serverproc.Group(syscall.SIGKILL, nil)
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread that started the process ends: the goroutine keeps its
		// thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // Status tells
			out.end()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the ID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal. A process that has ended gets none.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Ended is closed when the process has ended and all its output was given.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Status returns how the process ended, for messages, and whether its exit status is 0. Call it after Ended.
func (p *Process) Status() (text string, ok bool) {
	return p.cmd.ProcessState.String(), p.cmd.ProcessState.Success()
}

// lines splits output into lines.
type lines struct {
	each func([]byte)
	part []byte // of a line whose end is missing
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.part = append(l.part, b...)
	for {
		line, rest, found := bytes.Cut(l.part, []byte("\n"))
		if !found {
			return len(b), nil
		}
		l.each(line)
		l.part = rest
	}
}

func (l *lines) end() {
	if len(l.part) > 0 {
		l.each(l.part)
	}
}
