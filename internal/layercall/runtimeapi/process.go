package runtimeapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
)

// process is one process of the function and its own Runtime API server. Processes that a dead process left
// behind can't take the work of its successor.
type process struct {
	cmd    *exec.Cmd
	api    *api
	output *output
	killed atomic.Bool   // by Function.Kill
	exited chan struct{} // closed when it has ended, all its output is delivered and its port is free

	mu      sync.Mutex
	reaped  bool // its id is no longer its own
	waitErr error
}

func startProcess(ctx context.Context, cfg *Config) (*process, error) {
	program, err := findProgram(cfg.Command[0])
	if err != nil {
		return nil, unstartable(cfg, cfg.Command[0], err)
	}
	api, err := newAPI(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("function %s: the Runtime API can't listen on 127.0.0.1: %w", cfg.Name, err)
	}
	output, err := newOutput(cfg)
	if err != nil {
		api.close()
		return nil, fmt.Errorf("function %s: no pipe for its output: %w", cfg.Name, err)
	}
	p := &process{api: api, output: output, exited: make(chan struct{})}
	p.cmd = &exec.Cmd{
		Path:        program,
		Args:        cfg.Command,
		Env:         environment(cfg, program, api.address()),
		Dir:         cfg.Dir,
		Stdout:      output.stdout.write,
		Stderr:      output.stderr.write,
		SysProcAttr: subprocess.Group(syscall.SIGKILL, nil),
	}
	started := make(chan error)
	go p.keep(started)
	if err := <-started; err != nil {
		<-p.exited
		return nil, unstartable(cfg, program, err)
	}
	return p, nil
}

// keep starts the process, waits for its end, and releases its resources. If the kernel kills the child when
// its parent dies, the parent is the thread that forked. So this goroutine keeps its thread until the child
// has ended.
func (p *process) keep(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	group := 0
	if err == nil {
		group = p.cmd.Process.Pid
	}
	p.api.start(group)
	p.output.handedOver()
	started <- err
	if err == nil {
		p.reap()
	}
	p.api.close()
	p.output.finish()
}

func (p *process) reap() {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	// The rest of the group ends with its leader. The ID of the group is not reused while one of its
	// processes exists.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.reaped, p.waitErr = true, err
}

// signal sends a signal to the whole group.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// kill sends SIGKILL, and reports whether the process was running.
func (p *process) kill() bool {
	select {
	case <-p.exited:
		return false
	default:
	}
	p.killed.Store(true)
	p.signal(syscall.SIGKILL)
	return true
}

// end kills the process and waits until it and its resources are gone.
func (p *process) end() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// stop asks the process to end.
func (p *process) stop(ctx context.Context, patience time.Duration) {
	p.signal(syscall.SIGTERM)
	p.leave(ctx, patience)
}

// leave waits until the process ends by itself. When the time is up or the context is done, it ends the
// process.
func (p *process) leave(ctx context.Context, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
	p.end()
}

// status returns how an ended process ended.
func (p *process) status() (text string, code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state := p.cmd.ProcessState; state != nil {
		return state.String(), state.ExitCode()
	}
	return fmt.Sprintf("status unknown: %v", p.waitErr), -1
}

// findProgram makes the path absolute, so that the child's working directory does not decide which program
// runs.
func findProgram(name string) (string, error) {
	if filepath.Base(name) == name {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", err
		}
		return filepath.Abs(path)
	}
	return filepath.Abs(name)
}

// unstartable explains why the operating system did not start the program.
func unstartable(cfg *Config, program string, err error) *StartError {
	e := &StartError{Function: cfg.Name, Command: cfg.Command, Err: err}
	info, statErr := os.Stat(program)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		e.Problem = fmt.Sprintf("%s is not in PATH", program)
		e.Advice = "install it, or give its path with a slash, such as ./" + program
	case errors.Is(err, exec.ErrDot):
		e.Problem = fmt.Sprintf("%s is in PATH only through the current directory", program)
		e.Advice = "give it as ./" + program
	case errors.Is(err, fs.ErrNotExist) && statErr != nil:
		e.Problem = fmt.Sprintf("there is no file %s", program)
		e.Advice = "build the function, or give the path where it is"
	case errors.Is(err, fs.ErrNotExist):
		e.Problem = fmt.Sprintf("%s is there, but the interpreter or dynamic loader that it names is not",
			program)
		e.Advice = "fix its first line if it is a script, or build it with CGO_ENABLED=0"
	case errors.Is(err, fs.ErrPermission) && statErr == nil && info.IsDir():
		e.Problem = fmt.Sprintf("%s is a directory", program)
		e.Advice = "give the program in it, such as " + filepath.Join(program, "bootstrap")
	case errors.Is(err, fs.ErrPermission):
		e.Problem = fmt.Sprintf("%s is not executable", program)
		e.Advice = "chmod +x " + program
	case errors.Is(err, syscall.ENOEXEC):
		e.Problem = fmt.Sprintf("%s is not a program for this machine (%s/%s)", program, runtime.GOOS,
			runtime.GOARCH)
		e.Advice = "build it for this machine, or begin it with a #! line if it is a script"
	default:
		e.Problem = err.Error()
		e.Advice = "fix that and try again"
	}
	return e
}
