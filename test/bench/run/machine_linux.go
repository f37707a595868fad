package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is what the figures were taken on.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Python string `json:"python"`
	Node   string `json:"node"`
	Date   string `json:"date"`
}

func describeMachine(ctx context.Context) machine {
	m := machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(),
		Date: time.Now().UTC().Format(time.DateOnly)}
	m.Kernel = output(ctx, "uname", "-sr")
	m.Python, m.Node = output(ctx, "python3", "-V"), "Node.js "+output(ctx, "node", "-v")
	info, _ := os.ReadFile("/proc/cpuinfo") // without it, the processor stays unknown
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			m.CPU = strings.TrimLeft(strings.TrimSpace(name), ": ")
			break
		}
	}
	return m
}

func output(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output() //nolint:gosec // the commands are ours
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// loadAverage is the machine's load of the last minute, five and fifteen.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) >= 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

// watchOthers returns a function that says how many cores were busy since with anything but this process, its
// children that have ended, and the servers given.
func watchOthers(servers ...*process) (func() (float64, error), error) {
	from := time.Now()
	before, err := othersTime(servers)
	if err != nil {
		return nil, err
	}
	return func() (float64, error) {
		after, err := othersTime(servers)
		return max(0, (after-before).Seconds()/time.Since(from).Seconds()), err
	}, nil
}

// othersTime is the CPU time that the machine has spent on others since it was started.
func othersTime(servers []*process) (time.Duration, error) {
	busy, err := busyTime()
	if err != nil {
		return 0, err
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return 0, fmt.Errorf("the CPU time of this process: %w", err)
		}
		busy -= time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	for _, s := range servers {
		took, err := s.cpu()
		if err != nil {
			return 0, err
		}
		busy -= took
	}
	return busy, nil
}

// busyTime is the time of all cores that was not idle, stolen time included.
func busyTime() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every architecture that Go runs on
	const idle, iowait, last = 4, 5, 8 // see proc_stat(5); what follows is counted before
	fields := strings.Fields(string(stat))
	if len(fields) <= last {
		return 0, errors.New("/proc/stat is not as expected")
	}
	var ticks int64
	for i := 1; i <= last; i++ {
		if i == idle || i == iowait {
			continue
		}
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}
