//go:build unix && !linux

package redisserver

import "syscall"

// sysProcAttr gives the child its own process group. Only Linux can end it together with its parent.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
