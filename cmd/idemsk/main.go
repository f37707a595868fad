// Command idemsk runs idempotent MSK functions on one machine, and manages their keys and dead letters in
// production.
//
//	idemsk help
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/internal/release"
)

// version is the output of git describe. scripts/build.sh sets it.
var version string

func main() {
	local.RunLayer(os.Args)
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		release.Version(version))
	stop()
	os.Exit(code)
}

// quiet discards the log of the Redis client, which has a line for each failed connection. The verb prints
// the error once.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
