// Command idemsk runs idempotent MSK functions on a laptop, and looks after their records and dead letters in production.
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
)

// version is what git describes: scripts/build.sh sets it.
var version string

// toolVersion is version, or that of the module, which go install …@VERSION writes into the program.
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
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, toolVersion())
	stop()
	os.Exit(code)
}

// quiet is a logger of the Redis client: it would write each failed connection to standard error, and the verb says it once.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}
