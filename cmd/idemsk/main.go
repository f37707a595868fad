// Command idemsk runs idempotent MSK functions on one machine, and manages their keys and dead letters in
// production.
//
//	idemsk help
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
)

// version is the output of git describe. scripts/build.sh sets it.
var version string

// toolVersion returns version, or the module's version if go install built the tool.
func toolVersion() string {
	info, ok := debug.ReadBuildInfo()
	switch {
	case version != "":
		return version
	case ok:
		return info.Main.Version
	}
	return "unknown"
}

func main() {
	local.RunLayer(os.Args)
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		toolVersion())
	stop()
	os.Exit(code)
}

// quiet discards the log of the Redis client, which has a line for each failed connection. The verb prints
// the error once.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
