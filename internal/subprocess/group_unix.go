//go:build unix && !linux

package subprocess

import "syscall"

// Group gives a child its own process group and, unless as is nil, another user. Only Linux can end it
// together with its parent.
func Group(_ syscall.Signal, as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as}
}
