//go:build unix && !linux

package runtimeapi

import "syscall"

// sysProcAttr gives the child a process group of its own. Only Linux can end it together with its parent.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
