package serverproc

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/idemsk/idemsk/internal/subprocess"
)

// The scripts of the repository that run a server in the foreground, on a free port of 127.0.0.1.
const (
	Kafka         = "scripts/kafka.sh run 0"
	RabbitMQ      = "scripts/rabbitmq.sh run 0"
	DynamoDBLocal = "localstack/localstack.sh dynamodb-local 0"
)

var announcement = regexp.MustCompile(`(?m)^listening (\S+)$`)

// Script is a server that a script of the repository runs. Only Addr is safe for concurrent use.
type Script struct {
	process *Process
	line    string
}

// StartScript starts a server by the line of a script and its arguments, for example Kafka, and waits until
// it accepts requests. The script may install the server first. The caller must call Close.
func StartScript(ctx context.Context, line string) (*Script, error) {
	root, err := Repository()
	if err != nil {
		return nil, err
	}
	words := strings.Fields(line)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(root, words[0]), words[1:]...) //nolint:gosec // a script of this repository
	cmd.SysProcAttr = subprocess.Group(syscall.SIGTERM, nil)
	process, err := Start(ctx, cmd, Config{Ready: announcement, StartLimit: 5 * time.Minute,
		StopLimit: 20 * time.Second, Crash: syscall.SIGTERM})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	return &Script{process: process, line: line}, nil
}

// Addr returns the server's address: host and port, or a URL.
func (s *Script) Addr() string { return s.process.Ready() }

// Freeze stops the server's processes. Connections stay open, and requests get no answer.
func (s *Script) Freeze() error { return syscall.Kill(-s.process.process.PID(), syscall.SIGSTOP) }

// Thaw continues the server's processes.
func (s *Script) Thaw() error { return syscall.Kill(-s.process.process.PID(), syscall.SIGCONT) }

// Restart kills the broker of Kafka and has it started again with its data. It does not wait until the broker
// accepts connections.
func (s *Script) Restart() error { return s.process.Signal(syscall.SIGHUP) }

// Close ends the server, which deletes its data.
func (s *Script) Close() error {
	if err := s.process.End(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", s.line, err)
	}
	return nil
}
