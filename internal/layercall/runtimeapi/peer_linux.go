package runtimeapi

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// The API listens on the loopback interface, which all users of the machine and all containers of a Kubernetes
// pod have. So the process at the other end of a connection is looked for: a socket has an inode, which is
// among the open files of its process. A secret in AWS_LAMBDA_RUNTIME_API would be simpler, but AWS's clients
// for Python and Node.js take it for a host and a port.

// checkPeer returns an error unless the other end of a connection is a socket of a process of the group, or of
// a descendant of one. The ID of the group is that of its first process; 0 is none.
func checkPeer(group int, c net.Conn) error {
	s, err := findSocket(addrPort(c.RemoteAddr()), addrPort(c.LocalAddr()))
	if err != nil {
		return err
	}
	if group != 0 && s.isOf(group) { // mostly
		return nil
	}
	all, err := processes()
	if err != nil {
		return err
	}
	for pid := range all {
		if group != 0 && descends(pid, group, all) && s.isOf(pid) {
			return nil
		}
	}
	return errors.New("it is of another process than the function's")
}

func addrPort(a net.Addr) netip.AddrPort {
	of, _ := netip.ParseAddrPort(a.String()) // a TCP address
	return netip.AddrPortFrom(of.Addr().Unmap(), of.Port())
}

// isOf reports whether a process has the socket open. The open files of a process of another user can't be
// read without a capability. Then the user decides.
func (s socket) isOf(pid int) bool {
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	files, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrPermission) {
		return userOf(pid) == fmt.Sprint(s.user)
	}
	name := fmt.Sprintf("socket:[%d]", s.inode)
	for _, f := range files {
		if to, err := os.Readlink(folder + f.Name()); err == nil && to == name {
			return true
		}
	}
	return false
}

// userOf returns the effective user ID of a process, "" if it has ended.
func userOf(pid int) string {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, ids, _ := strings.Cut(string(status), "\nUid:")
	if fields := strings.Fields(ids); len(fields) > 1 {
		return fields[1]
	}
	return ""
}

// parents has the IDs of the parent and of the group of a process.
type parents struct{ parent, group int }

// processes returns all processes by their IDs.
func processes() (map[int]parents, error) {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("its sender can't be found: %w", err)
	}
	all := make(map[int]parents)
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may have ended
		// the name of the program is in brackets, and may have any character
		var state string
		var p parents
		behind := bytes.NewReader(stat[bytes.LastIndexByte(stat, ')')+1:])
		if _, err := fmt.Fscan(behind, &state, &p.parent, &p.group); err == nil {
			all[pid] = p
		}
	}
	return all, nil
}

// descends reports whether a process or one of its ancestors is in the group.
func descends(pid, group int, all map[int]parents) bool {
	for range all { // the processes were not read at once
		p, ok := all[pid]
		if !ok || p.group == group {
			return ok
		}
		pid = p.parent
	}
	return false
}
