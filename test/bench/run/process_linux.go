package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child that is pinned to one core.
type process struct {
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	log     string // what it writes to standard error
	started time.Time
}

// start starts a program on a core. It is ended by stop, by closing its input, or with the context.
func start(ctx context.Context, name string, core int, dir string, env, command []string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, strings.Map(fileLetter, name)+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()                           // the child has its own
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the commands are ours
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = log
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.started = time.Now()
	if err := onCore(core, p.cmd.Start); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

func fileLetter(r rune) rune {
	if strings.ContainsRune(" ,/:", r) {
		return '-'
	}
	return r
}

// line reads a line of the child's output.
func (p *process) line() (string, error) {
	if p.out.Scan() {
		return p.out.Text(), nil
	}
	return "", fmt.Errorf("%s ended without an answer; its messages are in %s", p.name, p.log)
}

// load hands a peer an event.
func (p *process) load(file string) error {
	if _, err := fmt.Fprintln(p.in, "load", file); err != nil {
		return fmt.Errorf("%s takes no commands: %w; its messages are in %s", p.name, err, p.log)
	}
	_, err := p.line()
	return err
}

// run lets a peer process the event that was loaded, and checks the number of records it handled.
func (p *process) run(want int) error {
	if _, err := fmt.Fprintln(p.in, "run"); err != nil {
		return fmt.Errorf("%s takes no commands: %w; its messages are in %s", p.name, err, p.log)
	}
	line, err := p.line()
	if err != nil {
		return err
	}
	answer := struct{ Handled *int }{}
	if err := json.Unmarshal([]byte(line), &answer); err != nil || answer.Handled == nil {
		return fmt.Errorf("%s answered %q; want how many records were handled", p.name, line)
	}
	if *answer.Handled != want {
		return fmt.Errorf("%s handled %d records; want %d", p.name, *answer.Handled, want)
	}
	return nil
}

// end closes a peer's input and waits until it has ended.
func (p *process) end() error {
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		return fmt.Errorf("%s: %w; its messages are in %s", p.name, err, p.log)
	}
	return nil
}

// stop ends a process, in whatever state it is.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended already
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// onCore calls f on a thread that is pinned to one core; what f starts inherits that.
func onCore(core int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
		if err := pin(core); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// pin pins the calling thread.
func pin(core int) error {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pinning to core %d: %w", core, err)
	}
	return nil
}

// cores returns the cores that this process may use.
func cores() (found []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("asking for the cores: %w", err)
	}
	for core := 0; len(found) < set.Count(); core++ {
		if set.IsSet(core) {
			found = append(found, core)
		}
	}
	return found, nil
}
