package runtimeapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
)

// socket is a TCP socket of this network namespace.
type socket struct {
	inode, user uint32 // user is the effective ID of who opened it
}

// errNoSocket means that no socket has the addresses.
var errNoSocket = errors.New("its connection has ended")

// findSocket returns the socket that has these addresses of IPv4, of its own and of its other end. The kernel
// is asked for this one. Where it does not answer such questions (without inet_diag, in gVisor), the socket is
// looked for among all, which takes milliseconds on a large machine.
func findSocket(local, remote netip.AddrPort) (socket, error) {
	s, err := askForSocket(local, remote)
	if err != nil && !errors.Is(err, errNoSocket) {
		return lookForSocket(local, remote)
	}
	return s, err
}

// The parts of a question for one socket (sock_diag(7)): a header, and a request with the addresses.
const (
	netlinkInetDiag = 4
	diagByFamily    = 20 // SOCK_DIAG_BY_FAMILY
	diagLength      = syscall.NLMSG_HDRLEN + 56
	diagPorts       = syscall.NLMSG_HDRLEN + 8
	diagLocal       = diagPorts + 4
	diagRemote      = diagLocal + 16
	diagCookie      = diagRemote + 16 + 4
	diagPort        = syscall.NLMSG_HDRLEN + 6 // in the answer: of the other end
	diagUser        = syscall.NLMSG_HDRLEN + 64
	diagInode       = diagUser + 4
)

// askForSocket asks the kernel for a socket.
func askForSocket(local, remote netip.AddrPort) (s socket, err error) {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, netlinkInetDiag)
	if err != nil {
		return s, err
	}
	defer func() { _ = syscall.Close(fd) }()
	question := make([]byte, diagLength)
	native, network := binary.NativeEndian, binary.BigEndian
	native.PutUint32(question, diagLength)
	native.PutUint16(question[4:], diagByFamily)
	native.PutUint16(question[6:], syscall.NLM_F_REQUEST)
	question[syscall.NLMSG_HDRLEN] = syscall.AF_INET // it finds sockets of IPv6 with addresses of IPv4 too
	question[syscall.NLMSG_HDRLEN+1] = syscall.IPPROTO_TCP
	native.PutUint32(question[syscall.NLMSG_HDRLEN+4:], ^uint32(0)) // in any state
	network.PutUint16(question[diagPorts:], local.Port())
	network.PutUint16(question[diagPorts+2:], remote.Port())
	copy(question[diagLocal:], local.Addr().AsSlice())
	copy(question[diagRemote:], remote.Addr().AsSlice())
	native.PutUint64(question[diagCookie:], ^uint64(0)) // no cookie
	if err := syscall.Sendto(fd, question, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return s, err
	}
	answer := make([]byte, os.Getpagesize())
	n, _, err := syscall.Recvfrom(fd, answer, syscall.MSG_DONTWAIT) // the kernel has answered
	switch {
	case err != nil:
		return s, err
	case n < diagInode+4 || native.Uint16(answer[4:]) != diagByFamily:
		return s, answerError(answer[:n])
	case network.Uint16(answer[diagPort:]) != remote.Port(): // it found one that listens
		return s, errNoSocket
	}
	return usable(socket{inode: native.Uint32(answer[diagInode:]), user: native.Uint32(answer[diagUser:])})
}

// answerError returns the error that the kernel answered with.
func answerError(answer []byte) error {
	if len(answer) >= syscall.NLMSG_HDRLEN+4 && binary.NativeEndian.Uint16(answer[4:]) == syscall.NLMSG_ERROR {
		code := syscall.Errno(-int32(binary.NativeEndian.Uint32(answer[syscall.NLMSG_HDRLEN:])))
		if code != syscall.ENOENT {
			return code
		}
	}
	return errNoSocket
}

// usable returns errNoSocket for a socket that no process has open any more.
func usable(s socket) (socket, error) {
	if s.inode == 0 {
		return s, errNoSocket
	}
	return s, nil
}

// lookForSocket looks for a socket in the lists of all, that of IPv6 too, with addresses of IPv4.
func lookForSocket(local, remote netip.AddrPort) (s socket, err error) {
	const attempts = 3                                           // a list is read in parts, between which it may change
	mapped := "0000000000000000" + hexOf([]byte{0, 0, 255, 255}) // before an address of IPv4
	for range attempts {
		list, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return s, fmt.Errorf("its sender can't be found: %w", err)
		}
		list6, _ := os.ReadFile("/proc/net/tcp6") // there may be none
		s, ok := socketIn(list, "", local, remote)
		if !ok {
			s, ok = socketIn(list6, mapped, local, remote)
		}
		if ok {
			return usable(s)
		}
	}
	return s, errNoSocket
}

// socketIn returns the socket in a list of sockets. The prefix is before each address.
func socketIn(list []byte, prefix string, local, remote netip.AddrPort) (s socket, ok bool) {
	addresses := fmt.Sprintf(" %s%s:%04X %s%s:%04X ", prefix, hexOf(local.Addr().AsSlice()), local.Port(),
		prefix, hexOf(remote.Addr().AsSlice()), remote.Port())
	_, rest, found := bytes.Cut(list, []byte(addresses))
	if !found {
		return s, false
	}
	var other string // the state, the queues, the timer, the retransmits, and the timeout
	_, err := fmt.Fscan(bytes.NewReader(rest), &other, &other, &other, &other, &s.user, &other, &s.inode)
	return s, err == nil
}

// hexOf returns bytes of an address as the kernel lists them: in words of 32 bits, in the machine's order.
func hexOf(address []byte) string {
	var b strings.Builder
	const word = 4
	for i := 0; i < len(address); i += word {
		fmt.Fprintf(&b, "%08X", binary.NativeEndian.Uint32(address[i:]))
	}
	return b.String()
}
