package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// Password is the password of the user "default", who has all permissions.
const Password = "a-password-for-tests"

// followLimit bounds the time until a replica or a cluster is synchronised.
const (
	followLimit = 30 * time.Second
	pollPause   = 5 * time.Millisecond
)

var server = serverproc.Kind{Package: "redisserver", Stop: syscall.SIGTERM, Config: serverproc.Config{
	Ready:      regexp.MustCompile("eady to accept connections"),
	StartLimit: 30 * time.Second, StopLimit: 20 * time.Second, Crash: syscall.SIGKILL,
}}

// Config configures a Server. The zero value is valid.
type Config struct {
	// Kind is the kind of the server (default Redis).
	Kind Kind
	// Settings are the settings of the configuration file. By default nothing is written to disk.
	Settings map[string]string
}

// Server is a Redis or Valkey server. Its methods are not safe for concurrent use, except Addr, Port and URL.
type Server struct {
	*serverproc.Server

	kind     Kind
	bin      serverproc.Installation
	settings map[string]string
}

// Start starts a server. The caller must call Close.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{kind: cmp.Or(cfg.Kind, Redis), settings: map[string]string{
		"bind": "127.0.0.1", "save": "", "appendonly": "no", "requirepass": Password, "masterauth": Password,
		"repl-diskless-sync-delay": "0",
	}}
	maps.Copy(s.settings, cfg.Settings)
	var err error
	if s.bin, err = find(ctx, s.kind); err != nil {
		return nil, err
	}
	if s.Server, err = serverproc.NewServer(ctx, server); err != nil {
		return nil, err
	}
	s.settings["port"], s.settings["dir"] = strconv.Itoa(s.Port()), s.Dir()
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Restart starts a stopped server with its data on disk, and waits until it accepts connections.
func (s *Server) Restart(ctx context.Context) error {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		args = append(args, "--"+name, s.settings[name])
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.bin.Program, args...) //nolint:gosec // the server of find
	cmd.Dir, cmd.SysProcAttr = s.Dir(), subprocess.Group(syscall.SIGKILL, nil)
	cmd.Env = serverproc.Environment(s.bin.Env)
	return s.Run(ctx, cmd)
}

// Kind returns the kind of the server.
func (s *Server) Kind() Kind { return s.kind }

// URL returns a connection string for the user with all permissions.
func (s *Server) URL() string { return s.URLOf("default", Password) }

// URLOf returns a connection string for another user.
func (s *Server) URLOf(user, password string) string {
	u := url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: s.Addr()}
	return u.String()
}

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
