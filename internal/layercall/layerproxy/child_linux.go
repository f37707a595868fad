package layerproxy

import "syscall"

// sysProcAttr has the kernel kill the runtime when this process ends, so that no function runs without the
// layer.
func sysProcAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
