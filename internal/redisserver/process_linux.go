package redisserver

import "syscall"

// sysProcAttr gives the child its own process group. The kernel kills it when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
