//go:build unix && !linux

package pgserver

import "syscall"

// sysProcAttr gives the child its own process group and user. Only Linux can tie its life to ours.
func sysProcAttr(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
