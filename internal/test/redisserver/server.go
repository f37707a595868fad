package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// Password is the password of the user "default", who has all permissions.
const Password = "a-password-for-tests"

// startLimit bounds the time until a server accepts connections, stopLimit the time until it ends, and
// followLimit the time until a replica or a cluster is synchronised.
const (
	startLimit  = 30 * time.Second
	stopLimit   = 20 * time.Second
	followLimit = 30 * time.Second
	pollPause   = 5 * time.Millisecond
)

// Config configures a Server. The zero value is valid.
type Config struct {
	// Kind is the kind of the server (default Redis).
	Kind Kind
	// Settings are the settings of the configuration file. By default nothing is written to disk.
	Settings map[string]string
}

// Server is a Redis or Valkey server. Its methods are not safe for concurrent use, except Addr and URL.
type Server struct {
	kind     Kind
	bin      binary
	settings map[string]string
	dir      string // gone with Close
	port     int

	process *serverproc.Process
}

// Start starts a server. The caller must call Close.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := prepare(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare finds the program, creates a folder and reserves a port.
func prepare(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{kind: cmp.Or(cfg.Kind, Redis), settings: map[string]string{
		"bind": "127.0.0.1", "save": "", "appendonly": "no", "requirepass": Password, "masterauth": Password,
		"repl-diskless-sync-delay": "0",
	}}
	maps.Copy(s.settings, cfg.Settings)
	var err error
	if s.bin, err = find(ctx, s.kind); err != nil {
		return nil, err
	}
	if s.port, err = serverproc.FreePort(ctx); err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	if s.dir, err = os.MkdirTemp("", "idemsk-redis-"); err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	s.settings["port"], s.settings["dir"] = strconv.Itoa(s.port), s.dir
	return s, nil
}

// Restart starts a stopped server with its data on disk, and waits until it accepts connections.
func (s *Server) Restart(ctx context.Context) error {
	if s.process.Running() {
		return errors.New("redisserver: it is running")
	}
	var args []string
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		args = append(args, "--"+name, s.settings[name])
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.bin.path, args...) //nolint:gosec // the server of find
	cmd.Dir, cmd.SysProcAttr = s.dir, serverproc.Group(syscall.SIGKILL, nil)
	cmd.Env = serverproc.Environment(s.bin.env)
	process, err := serverproc.Start(ctx, cmd, serverproc.Config{
		Ready:      regexp.MustCompile("eady to accept connections"),
		StartLimit: startLimit, StopLimit: stopLimit, Crash: syscall.SIGKILL,
	})
	if err != nil {
		return fmt.Errorf("redisserver: starting on port %d: %w", s.port, err)
	}
	s.process = process
	return nil
}

// Stop ends the server and lets it write its data to disk.
func (s *Server) Stop() error { return s.end(syscall.SIGTERM) }

// Crash ends the server at once.
func (s *Server) Crash() error { return s.end(syscall.SIGKILL) }

// Pause stops the server's execution until Resume, like an overloaded or disconnected host. A paused server
// can be crashed, but not stopped.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	if err := s.process.Signal(sig); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	return nil
}

func (s *Server) end(sig syscall.Signal) error {
	if err := s.process.End(sig); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	return nil
}

// Close ends the server and deletes its data.
func (s *Server) Close() error {
	return errors.Join(s.Crash(), os.RemoveAll(s.dir))
}

// Kind returns the kind of the server.
func (s *Server) Kind() Kind { return s.kind }

// Addr returns the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// URL returns a connection string for the user with all permissions.
func (s *Server) URL() string { return s.URLOf("default", Password) }

// URLOf returns a connection string for another user.
func (s *Server) URLOf(user, password string) string {
	u := url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: s.Addr()}
	return u.String()
}

// Log returns the end of the server's log since its last start.
func (s *Server) Log() string { return s.process.Log() }

// Do sends a command as the user with all permissions.
func (s *Server) Do(ctx context.Context, args ...any) (any, error) {
	client := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: Password, Protocol: 2,
		DisableIdentity: true})
	answer, err := client.Do(ctx, args...).Result()
	if err != nil {
		err = fmt.Errorf("redisserver: %v: %w", args[0], err)
	}
	return answer, errors.Join(err, client.Close())
}

// until repeats a command until its answer, as text, is the wanted one.
func (s *Server) until(ctx context.Context, wanted func(answer string) bool, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	pause := time.NewTicker(pollPause)
	defer pause.Stop()
	for {
		answer, err := s.Do(ctx, args...)
		if text := fmt.Sprint(answer); err == nil && wanted(text) {
			return nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return fmt.Errorf("redisserver: waiting for %v: %w; last answer: %v %w; its log ends:\n%s", args,
				ctx.Err(), answer, err, s.Log())
		}
	}
}
