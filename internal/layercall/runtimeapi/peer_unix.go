//go:build unix && !linux

package runtimeapi

import "net"

// checkPeer returns nil: only on Linux a connection is looked up.
func checkPeer(int, net.Conn) error { return nil }
