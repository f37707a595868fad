//go:build unix && !linux

package pgserver

import "syscall"

// sysProcAttr gives the child its own process group and user. Only Linux can end it together with its parent.
func sysProcAttr(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
