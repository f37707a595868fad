package runtimeapi

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
)

// Both ways of finding a socket find that of an open connection, with its user and its process, and none after
// both ends are closed.
func TestBothWaysFindASocket(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts nothing: the kernel answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	local, remote := addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())
	for name, find := range ways {
		s, err := find(local, remote)
		if err != nil || s.user != uint32(os.Geteuid()) || !s.isOf(os.Getpid()) || s.isOf(os.Getppid()) {
			t.Errorf("%s: %+v, %v; want a socket of this process alone", name, s, err)
		}
		if s, err := find(local, local); !errors.Is(err, errNoSocket) {
			t.Errorf("%s: %+v, %v of a connection that is none", name, s, err)
		}
		if s, err := find(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), local.Port()), remote); !errors.Is(err,
			errNoSocket) {
			t.Errorf("%s: %+v, %v of the same ports of another address", name, s, err)
		}
	}
}

var ways = map[string]func(local, remote netip.AddrPort) (socket, error){
	"by a question": askForSocket, "in the lists": lookForSocket,
}

func BenchmarkFindSocket(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	local, remote := addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())
	for name, find := range ways {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := find(local, remote); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
