package redisserver

import "syscall"

// sysProcAttr gives the child its own process group, and has the kernel kill it when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
