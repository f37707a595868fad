// Package serverproc runs real servers as processes of a test. It finds a program, starts it, waits until it
// is ready, and ends it by its process ID.
package serverproc

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
)

// Config configures how a server is started and ended.
type Config struct {
	Ready      *regexp.Regexp // matches what it logs when it accepts connections
	StartLimit time.Duration  // the maximum time until it is ready
	StopLimit  time.Duration  // the maximum time until it ends
	Crash      syscall.Signal // ends it at once
}

// Process is a running server. Its methods are not safe for concurrent use. A nil Process has ended.
type Process struct {
	cfg     Config
	process *subprocess.Process
	log     *logTail
	running bool
}

// Start starts a server, which has a process group of its own (see subprocess.Group), and waits until it is
// ready. The command's output becomes the log.
func Start(ctx context.Context, cmd *exec.Cmd, cfg Config) (p *Process, err error) {
	p = &Process{cfg: cfg, log: newLogTail(cfg.Ready), running: true}
	if p.process, err = subprocess.Run(cmd, p.log.line); err != nil {
		return nil, err
	}
	limit := time.NewTimer(cfg.StartLimit)
	defer limit.Stop()
	select {
	case <-p.log.ready:
		return p, nil
	case <-p.process.Ended():
		err = errors.New("it ended by itself")
	case <-limit.C:
		err = fmt.Errorf("it did not accept connections within %v", cfg.StartLimit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(fmt.Errorf("%w; its log ends:\n%s", err, p.log), p.End(cfg.Crash))
}

// Running reports whether the process was started and has not been ended. It may have ended by itself.
func (p *Process) Running() bool { return p != nil && p.running }

// Ready returns what matched Config.Ready: its last group, or all of it.
func (p *Process) Ready() string { return p.log.said() }

// Signal sends a signal to the server, and not to its children.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.Running() {
		return errors.New("it is not running")
	}
	p.process.Signal(sig)
	return nil
}

// End sends a signal to the process and waits until it has ended. If it exceeds StopLimit, it is killed with
// its children, which is an error.
func (p *Process) End(sig syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	p.process.Signal(sig)
	limit := time.NewTimer(p.cfg.StopLimit)
	defer limit.Stop()
	var err error
	select {
	case <-p.process.Ended():
	case <-limit.C:
		err = fmt.Errorf("the server, process %d, did not end within %v and is killed; its log ends:\n%s",
			p.process.PID(), p.cfg.StopLimit, p.log)
		_ = syscall.Kill(-p.process.PID(), syscall.SIGKILL) // it may have ended by itself
		<-p.process.Ended()
	}
	p.running = false
	return err
}

// Log returns the end of what the server wrote.
func (p *Process) Log() string {
	if p == nil {
		return ""
	}
	return p.log.String()
}
