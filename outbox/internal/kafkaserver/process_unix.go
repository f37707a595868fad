//go:build unix && !linux

package kafkaserver

import "syscall"

// sysProcAttr gives the child a process group. Only Linux can tie its life to ours.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
