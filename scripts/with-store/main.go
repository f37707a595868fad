// Command with-store runs a command while a PostgreSQL or a Redis server of its own is up, on a free port of
// 127.0.0.1, in a temporary folder, and ends the server again. The command finds it in IDEMSK_STORE and
// IDEMSK_STORE_URL.
//
//	with-store postgres|redis COMMAND [ARGUMENTS…]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-store:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// server is either of the two.
type server interface {
	URL() string
	Close() error
}

func run(args []string) (code int, err error) {
	const least = 2
	if len(args) < least {
		return least, errors.New("want postgres or redis, and a command")
	}
	// The terminal sends an interrupt to the command too; the server goes when the command has ended.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := start(ctx, args[0])
	if err != nil {
		return 1, err
	}
	cmd := exec.CommandContext(ctx, args[1], args[2:]...) //nolint:gosec // the caller's own command
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "IDEMSK_STORE="+args[0], "IDEMSK_STORE_URL="+s.URL())
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code, err = max(exit.ExitCode(), 1), nil // it has said why itself
	}
	return code, errors.Join(err, s.Close())
}

func start(ctx context.Context, store string) (server, error) {
	switch store {
	case "postgres":
		return pgserver.Start(ctx, pgserver.Config{})
	case "redis":
		return redisserver.Start(ctx, redisserver.Config{Settings: map[string]string{"appendonly": "yes",
			"appendfsync": "always"}})
	}
	return nil, fmt.Errorf("the store is %q: want postgres or redis", store)
}
