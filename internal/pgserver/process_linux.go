package pgserver

import "syscall"

// sysProcAttr gives the child its own process group and user. The kernel sends it SIGQUIT when the thread that started it ends.
// SIGQUIT is PostgreSQL's immediate shutdown, which also ends its children.
func sysProcAttr(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as, Pdeathsig: syscall.SIGQUIT}
}
