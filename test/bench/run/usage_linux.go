package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cpu returns the CPU time that the process and its descendants have taken so far, all threads together, to
// the nanosecond.
func (p *process) cpu() (sum time.Duration, err error) {
	return overFamily(p, func(pid int) (time.Duration, error) {
		const schedClock = 2 // see clock_getcpuclockid in glibc
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid)<<3|schedClock, &ts); err != nil {
			return 0, fmt.Errorf("the CPU clock of %s: %w", p.name, err)
		}
		return time.Duration(ts.Nano()), nil
	})
}

// peakMemory returns the most memory that was resident, in bytes, as the sum of the process and its
// descendants.
func (p *process) peakMemory() (int64, error) {
	return overFamily(p, func(pid int) (int64, error) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(status)) {
			if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				n, err := strconv.ParseInt(strings.Fields(kb)[0], 10, 64)
				return n << 10, err
			}
		}
		return 0, fmt.Errorf("no VmHWM in the status of %s", p.name)
	})
}

// overFamily returns the sum of a figure over a process and its descendants.
func overFamily[T int64 | time.Duration](p *process, figure func(pid int) (T, error)) (sum T, err error) {
	children, err := childrenOfAll()
	if err != nil {
		return 0, err
	}
	for pids := []int{p.cmd.Process.Pid}; len(pids) > 0; pids = pids[1:] {
		one, err := figure(pids[0])
		if err != nil {
			return 0, err
		}
		sum += one
		pids = append(pids, children[pids[0]]...)
	}
	return sum, nil
}

// childrenOfAll returns the children of each process of the machine.
func childrenOfAll() (map[int][]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := make(map[int][]int)
	for _, file := range files {
		stat, err := os.ReadFile(file) //nolint:gosec // of the kernel
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		var pid, parent int
		var state string
		text := string(stat) // "PID (NAME) STATE PARENT …", where the name may have blanks and parentheses
		if _, err := fmt.Sscan(text, &pid); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ')')+1:], &state, &parent); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		children[parent] = append(children[parent], pid)
	}
	return children, nil
}
