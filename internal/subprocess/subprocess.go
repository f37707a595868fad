// Package subprocess runs a program as a process that is killed, paused and ended on purpose.
package subprocess

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"syscall"
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
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the caller's program, which Signal ends
	cmd.Env, cmd.SysProcAttr = env, Group(syscall.SIGKILL, nil)
	if input != nil {
		cmd.Stdin = input
	}
	return Run(cmd, line)
}

// Run starts a command that has its environment and its Group, and gives its output to line as Start does.
func Run(cmd *exec.Cmd, line func([]byte)) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	out := &lines{each: line}
	cmd.Stdout, cmd.Stderr = out, out
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread that started the process ends: the goroutine keeps its
		// thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // Status tells
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
