// Command idemsk-consumer is a consumer process for handlers in any language: it reads topics as a member of
// a Kafka consumer group, as package app/process does, and calls a web service or a Lambda function with the
// records that must run. docs/sidecar.md has its use.
//
// A layercall.Caller makes the calls. Its Runtime is a web service (webcall) or the child processes of a
// function (childcall).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/app/s3"
	"github.com/idemsk/idemsk/cmd/idemsk-consumer/internal/initproc"
	"github.com/idemsk/idemsk/cmd/internal/release"
	"github.com/idemsk/idemsk/cmd/internal/schemaenv"
)

// version is the output of git describe, or the version of a release. The builds set it.
var version string

func main() {
	o, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage + release.Guide(release.Version(version)) + "\n")
	case err != nil:
		fmt.Fprintf(os.Stderr, "idemsk-consumer: %v\nidemsk-consumer --help shows the options.\n", err)
		os.Exit(2) // as programs do for a wrong command line
	case o.version:
		fmt.Println("idemsk-consumer", release.Version(version))
	default:
		if o.function != "" {
			initproc.Run()
		}
		process.StartFunc(o.build, parts()...)
	}
}

// parts are what the program has beside the handler.
func parts() []process.Option {
	return []process.Option{postgres.Store(), redis.Store(), s3.DeadLetterValues(), schemaenv.Schemas()}
}
