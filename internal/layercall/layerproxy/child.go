package layerproxy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// runtimeAPI is the variable with the address of the Runtime API.
const runtimeAPI = "AWS_LAMBDA_RUNTIME_API"

// child is the process of the function's runtime. It has this process's standard streams and environment.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
}

// startChild starts the runtime with another Runtime API. Signals to this process are passed on to it.
func startChild(command []string, api string) (*child, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the command that Lambda gives, for the life of this process
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, runtimeAPI+"=") }), runtimeAPI+"="+api)
	cmd.SysProcAttr = sysProcAttr()
	signals := make(chan os.Signal, 8) //nolint:mnd // more than arrive at once
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the runtime: %w", err)
	}
	c := &child{cmd: cmd, exited: make(chan struct{})}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // an error means that it has ended
		}
	}()
	go func() {
		_ = cmd.Wait() // its state is read in exitAlike
		signal.Stop(signals)
		close(signals)
		close(c.exited)
	}()
	return c, nil
}

// kill ends the runtime and waits for its end.
func (c *child) kill() {
	if err := c.cmd.Process.Kill(); err == nil || errors.Is(err, os.ErrProcessDone) {
		<-c.exited
	}
}

// exitAlike ends this process as the runtime has ended: with its exit status, or by the same signal.
func (c *child) exitAlike() {
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		os.Exit(c.cmd.ProcessState.ExitCode())
	}
	signal.Reset(status.Signal())
	_ = syscall.Kill(os.Getpid(), status.Signal())
	const shell = 128 // what a shell adds to the number of a signal
	os.Exit(shell + int(status.Signal()))
}
