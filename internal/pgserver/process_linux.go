package pgserver

import "syscall"

// sysProcAttr gives the child its own process group and user, and has the kernel stop it when the thread that started it
// ends: SIGQUIT is PostgreSQL's immediate shutdown, which takes its own children along.
func sysProcAttr(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as, Pdeathsig: syscall.SIGQUIT}
}
