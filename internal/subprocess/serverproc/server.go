package serverproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// Kind describes a kind of servers.
type Kind struct {
	Config

	Package string         // begins the errors
	Stop    syscall.Signal // ends a server after it has written its data
}

// Server is a server with a temporary folder and a port of 127.0.0.1, which it keeps when it is ended and
// started again. Its methods are not safe for concurrent use, except Addr and Port.
type Server struct {
	kind    Kind
	dir     string
	port    int
	process *Process
}

// NewServer creates the folder of a server and reserves its port. The caller must call Close.
func NewServer(ctx context.Context, kind Kind) (s *Server, err error) {
	s = &Server{kind: kind}
	if s.port, err = FreePort(ctx); err == nil {
		s.dir, err = os.MkdirTemp("", "idemsk-"+kind.Package+"-")
	}
	return s, s.named(err)
}

// named returns an error that begins with the package.
func (s *Server) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.kind.Package, err)
}

// Run starts the server by a command, and waits until it accepts connections.
func (s *Server) Run(ctx context.Context, cmd *exec.Cmd) error {
	if s.process.Running() {
		return s.named(errors.New("it is running"))
	}
	process, err := Start(ctx, cmd, s.kind.Config)
	if err != nil {
		return s.named(fmt.Errorf("starting on port %d: %w", s.port, err))
	}
	s.process = process
	return nil
}

// Dir returns the folder, which is gone after Close.
func (s *Server) Dir() string { return s.dir }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// Addr returns the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Stop ends the server, which writes its data to disk.
func (s *Server) Stop() error { return s.named(s.process.End(s.kind.Stop)) }

// Crash ends the server at once.
func (s *Server) Crash() error { return s.named(s.process.End(s.kind.Crash)) }

// Pause stops the server's execution until Resume, like an overloaded or disconnected host. A paused server
// can be crashed, but not stopped.
func (s *Server) Pause() error { return s.named(s.process.Signal(syscall.SIGSTOP)) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.named(s.process.Signal(syscall.SIGCONT)) }

// Close ends the server and deletes its data.
func (s *Server) Close() error { return errors.Join(s.Crash(), os.RemoveAll(s.dir)) }

// Log returns the end of the server's log since its last start.
func (s *Server) Log() string { return s.process.Log() }
