package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// The superuser, and the database that every server has.
const (
	User     = "postgres"
	Password = "a-password-for-tests"
	Database = "postgres"
)

var server = serverproc.Kind{Package: "pgserver", Config: serverproc.Config{
	Ready:      regexp.MustCompile("database system is ready to accept"), // connections, or read-only ones
	StartLimit: 60 * time.Second, StopLimit: 30 * time.Second,
	Crash: syscall.SIGQUIT, // the immediate shutdown: at the next start the server recovers from its log
},
	Stop: syscall.SIGINT, // the fast shutdown: it closes connections and rolls their transactions back
}

// Config configures a Server. The zero value is valid.
type Config struct {
	// Settings are lines of postgresql.conf. By default fsync is off: a test crashes servers, not machines.
	Settings map[string]string
}

// Server is a PostgreSQL server. Its methods are not safe for concurrent use, except Addr, Port and URL.
type Server struct {
	*serverproc.Server

	bin serverproc.Installation
	as  *syscall.Credential
}

// Start initialises a server and starts it. The caller must call Close.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := prepare(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.initdb(ctx, cfg); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Standby starts a server that follows this one and is read-only until it is promoted. If this server has
// synchronous_standby_names = '*', each answered commit is on the standby. The standby has no standby of its
// own, so it waits for none after its promotion.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	standby, err := prepare(ctx)
	if err != nil {
		return nil, err
	}
	err = standby.run(ctx, "pg_basebackup", "--pgdata", standby.data(), "--dbname", s.URL(),
		"--write-recovery-conf",
		"--checkpoint=fast", "--wal-method=stream", "--no-sync")
	if err == nil {
		err = standby.configure(map[string]string{
			// which promotion waits for
			"port": strconv.Itoa(standby.Port()), "synchronous_standby_names": "",
			"wal_retrieve_retry_interval": "50ms",
		})
	}
	if err == nil {
		err = standby.Restart(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, standby.Close())
	}
	return standby, nil
}

// Promote makes a standby a primary, and waits until the promotion is complete.
func (s *Server) Promote(ctx context.Context) error {
	return s.run(ctx, "pg_ctl", "promote", "--pgdata", s.data(), "--wait")
}

// prepare finds the programs, creates a folder and reserves a port.
func prepare(ctx context.Context) (*Server, error) {
	bin, err := find(ctx)
	if err != nil {
		return nil, err
	}
	as, err := serverUser()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, as: as}
	if s.Server, err = serverproc.NewServer(ctx, server); err != nil {
		return nil, err
	}
	if err := give(s.Dir(), as); err != nil {
		return nil, errors.Join(fmt.Errorf("pgserver: %w", err), s.Close())
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.Dir(), "data") }

func (s *Server) initdb(ctx context.Context, cfg Config) error {
	pwfile := filepath.Join(s.Dir(), "password")
	if err := os.WriteFile(pwfile, []byte(Password+"\n"), 0o600); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	if err := give(pwfile, s.as); err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	err := s.run(ctx, "initdb", "--pgdata", s.data(), "--username", User, "--pwfile", pwfile,
		"--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	if err != nil {
		return err
	}
	settings := map[string]string{
		"listen_addresses": "127.0.0.1", "port": strconv.Itoa(s.Port()), "unix_socket_directories": "",
		"fsync": "off", "max_connections": "200", "logging_collector": "off", "wal_level": "replica",
	}
	maps.Copy(settings, cfg.Settings)
	return s.configure(settings)
}

// configure appends settings. PostgreSQL uses the last of several lines for one setting.
func (s *Server) configure(settings map[string]string) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("pgserver: %w", err)
	}
	_, err = f.WriteString(text.String())
	return errors.Join(err, f.Close())
}

// run runs one of the programs until it ends.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	cmd := s.command(ctx, program, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgserver: %s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(s.bin.Program), program), args...) //nolint:gosec // a program of this package
	cmd.Dir = s.Dir()
	// SIGQUIT is the immediate shutdown, which also ends the server's children
	cmd.SysProcAttr = subprocess.Group(syscall.SIGQUIT, s.as)
	cmd.Env = serverproc.Environment(s.bin.Env)
	return cmd
}

// Restart starts a stopped server, and waits until it accepts connections.
func (s *Server) Restart(ctx context.Context) error {
	return s.Run(ctx, s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data()))
}

// URL returns a connection string for the superuser.
func (s *Server) URL() string { return s.URLOf(User, Password, Database) }

// URLOf returns a connection string for another user or database.
func (s *Server) URLOf(user, password, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password),
		Host: s.Addr(),
		Path: database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// FailoverURL returns a connection string for the superuser that selects the first of the servers that
// accepts writes.
func FailoverURL(servers ...*Server) string {
	hosts := make([]string, len(servers))
	for i, s := range servers {
		hosts[i] = s.Addr()
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(User, Password), Host: strings.Join(hosts, ","),
		Path:     Database,
		RawQuery: "sslmode=disable&target_session_attrs=read-write",
	}
	return u.String()
}
