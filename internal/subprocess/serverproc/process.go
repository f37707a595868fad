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
	cmd     *exec.Cmd
	log     *logTail
	running bool
	ended   chan struct{}
}

// Start starts a server, which has a process group of its own (see Group), and waits until it is ready. The
// command's output becomes the log.
func Start(ctx context.Context, cmd *exec.Cmd, cfg Config) (*Process, error) {
	p := &Process{cfg: cfg, cmd: cmd, log: newLogTail(cfg.Ready), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.running = true
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	limit := time.NewTimer(cfg.StartLimit)
	defer limit.Stop()
	var err error
	select {
	case <-p.log.ready:
		return p, nil
	case <-p.ended:
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
	return p.cmd.Process.Signal(sig)
}

// End sends a signal to the process and waits until it has ended. If it exceeds StopLimit, it is killed with
// its children, which is an error.
func (p *Process) End(sig syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	_ = p.cmd.Process.Signal(sig) // it may have ended by itself
	limit := time.NewTimer(p.cfg.StopLimit)
	defer limit.Stop()
	var err error
	select {
	case <-p.ended:
	case <-limit.C:
		err = fmt.Errorf("the server, process %d, did not end within %v and is killed; its log ends:\n%s",
			p.cmd.Process.Pid, p.cfg.StopLimit, p.log)
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // it may have ended by itself
		<-p.ended
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
