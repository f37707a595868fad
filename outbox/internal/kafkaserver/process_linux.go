package kafkaserver

import "syscall"

// sysProcAttr gives the child a process group, and has the kernel end it when the thread that started it ends.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
