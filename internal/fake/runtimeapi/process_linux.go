package runtimeapi

import "syscall"

// sysProcAttr gives the child a process group of its own and has the kernel kill it when the thread that
// started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
