package runtimeapi

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
)

// Both ways of finding a socket find that of an open connection, also a socket of IPv6, with its user and its
// process. They find none for other addresses.
func TestBothWaysFindASocket(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts nothing: the kernel answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	remote := addrPort(l.Addr())
	for family, local := range map[string]netip.AddrPort{"IPv4": connect4(t, remote), "IPv6": connect6(t, remote)} {
		for name, find := range ways {
			s, err := find(local, remote)
			if err != nil || s.user != uint32(os.Geteuid()) || !s.isOf(os.Getpid()) || s.isOf(os.Getppid()) {
				t.Errorf("%s, %s: %+v, %v; want a socket of this process alone", name, family, s, err)
			}
			other := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), local.Port())
			for _, local := range []netip.AddrPort{other, remote} {
				if s, err := find(local, remote); !errors.Is(err, errNoSocket) {
					t.Errorf("%s, %s: %+v, %v from %s; want none", name, family, s, err, local)
				}
			}
		}
	}
}

// connect4 returns the address of a connection to a listener.
func connect4(t *testing.T, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return addrPort(c.LocalAddr())
}

// connect6 is connect4 with a socket of IPv6.
func connect6(t *testing.T, to netip.AddrPort) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Connect(fd, &syscall.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(to.Addr(), uint16(at.(*syscall.SockaddrInet6).Port))
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
