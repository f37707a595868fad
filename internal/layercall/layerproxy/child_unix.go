//go:build unix && !linux

package layerproxy

import "syscall"

// sysProcAttr is empty: only Linux can tie the life of a process to that of its parent.
func sysProcAttr() *syscall.SysProcAttr { return nil }
