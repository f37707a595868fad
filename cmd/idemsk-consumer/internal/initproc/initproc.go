// Package initproc is process 1 of a container. The processes that a function starts become children of process
// 1 when their parents end, and stay in the table of processes, which is limited, until process 1 has waited
// for them. A program that waits for its own children, as package os/exec does, can't wait for any child too:
// it would take their exit statuses. So another process does it.
package initproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/idemsk/idemsk/internal/subprocess"
)

// Run returns at once in all processes but process 1. In process 1 it runs the program once more, as its child,
// passes signals on to it, waits for all processes that become its children, and ends as the program ends.
func Run() {
	if os.Getpid() != 1 {
		return
	}
	program, err := os.Executable()
	if err == nil {
		var code int
		if code, err = supervise(exec.Command(program, os.Args[1:]...)); err == nil { //nolint:gosec // this program
			os.Exit(code)
		}
	}
	fmt.Fprintf(os.Stderr, "idemsk-consumer: as process 1 it can't start itself once more: %v: run it below an init "+
		"process, such as that of docker run --init\n", err)
	os.Exit(1)
}

// supervise runs a command until it ends, and returns its exit status. It waits for each child of this process,
// which must not wait for one elsewhere.
func supervise(cmd *exec.Cmd) (code int, err error) {
	runtime.LockOSThread() // the kernel kills the child when the thread that started it ends
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8) //nolint:mnd // more than arrive at once
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2)
	defer signal.Stop(signals)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = subprocess.Group(syscall.SIGKILL, nil) // a terminal's signals come from here alone
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // an error means that it has ended
		}
	}()
	for {
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for children: %w", err)
		case pid == cmd.Process.Pid && status.Signaled():
			const shell = 128 // what a shell adds to the number of a signal
			return shell + int(status.Signal()), nil
		case pid == cmd.Process.Pid:
			return status.ExitStatus(), nil
		}
	}
}
