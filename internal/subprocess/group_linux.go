package subprocess

import "syscall"

// Group gives a child its own process group and, unless as is nil, another user. The kernel sends it the
// signal when the thread that started it ends.
func Group(sig syscall.Signal, as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as, Pdeathsig: sig}
}
