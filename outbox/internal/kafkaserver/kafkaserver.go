// Package kafkaserver runs an Apache Kafka broker as a process of a test, as scripts/kafka.sh run does, on a free port of
// 127.0.0.1. The broker can be frozen and thawed, to simulate one that does not answer.
package kafkaserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/serverproc"
)

const (
	startLimit = 90 * time.Second // the first start installs Kafka
	stopLimit  = 20 * time.Second
)

// Server is a broker. Only Addr is safe for concurrent use.
type Server struct {
	cmd   *exec.Cmd
	addr  string
	ended chan struct{}
}

// Start starts a broker and waits until it accepts requests. The caller must call Close.
func Start(ctx context.Context) (*Server, error) {
	root, err := serverproc.Repository()
	if err != nil {
		return nil, fmt.Errorf("kafkaserver: %w", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(root, "scripts", "kafka.sh"), "run", "0") //nolint:gosec // a script of this repository
	cmd.SysProcAttr = sysProcAttr()
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("kafkaserver: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("kafkaserver: %w", err)
	}
	s := &Server{cmd: cmd, ended: make(chan struct{})}
	ready := make(chan string, 1)
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
				ready <- addr
			}
		}
		_ = cmd.Wait() // its log shows how it ended
	}()
	limit := time.NewTimer(startLimit)
	defer limit.Stop()
	select {
	case s.addr = <-ready:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("kafkaserver: it ended by itself: %s", log.String())
	case <-limit.C:
		err = fmt.Errorf("kafkaserver: it did not take requests within %v", startLimit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, s.Close())
}

// Addr returns the broker's address.
func (s *Server) Addr() string { return s.addr }

// Freeze stops the broker's processes. Connections stay open, and requests get no answer.
func (s *Server) Freeze() error { return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGSTOP) }

// Thaw continues the broker's processes.
func (s *Server) Thaw() error { return syscall.Kill(-s.cmd.Process.Pid, syscall.SIGCONT) }

// Close ends the broker and deletes its data.
func (s *Server) Close() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	limit := time.NewTimer(stopLimit)
	defer limit.Stop()
	select {
	case <-s.ended:
		return nil
	case <-limit.C:
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.ended
		return fmt.Errorf("kafkaserver: the broker, process group %d, did not end within %v and was killed", s.cmd.Process.Pid, stopLimit)
	}
}
