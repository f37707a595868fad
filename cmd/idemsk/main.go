// Command idemsk runs idempotent MSK functions on a laptop, and looks after their records and dead letters in production.
//
//	idemsk help
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
)

// version is set by the build.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version)
	stop()
	os.Exit(code)
}
