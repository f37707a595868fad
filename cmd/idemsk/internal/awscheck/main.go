// The program of make aws-check. It deploys the example on AWS with a cluster of its own, sends payments with
// duplicates, kills invocations by time-outs, compares the ledger, prints a report, and destroys all of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/payments"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
)

// Defaults of a run.
const (
	records = 10_000
	// LocalStack serves some 250 requests a second.
	localRecords = 1000

	copiesShare     = 0.1
	freezesPerMille = 5
	partitions      = 8
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	var usage *command.UsageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "aws-check: %v\n", err)
		os.Exit(2)
	case !errors.Is(err, command.ErrReported):
		fmt.Fprintf(os.Stderr, "aws-check: %v\n", err)
	}
	os.Exit(1)
}

// run parses the flags, asks, and checks.
func run(ctx context.Context, args []string, s command.Streams) error {
	fs := flag.NewFlagSet("aws-check", flag.ContinueOnError)
	fs.SetOutput(s.Err)
	var c check
	var aws flags.AWS
	var version string
	aws.DeclareRegion(fs)
	fs.StringVar(&aws.Endpoint, "local", "", "the `URL` of LocalStack, in the place of AWS")
	yes := fs.Bool("yes", false, "do not ask")
	fs.StringVar(&version, "version", "", "the `VERSION` for the report")
	fs.StringVar(&c.name, "name", "", "the `NAME` of the stacks")
	fs.StringVar(&c.cdk, "cdk", "scripts/cdk.sh", "the `COMMAND` that runs the CDK's command line")
	fs.StringVar(&c.handler, "handler", "", "the `FOLDER` of the example function's program")
	fs.StringVar(&c.producer, "producer", "", "the `FOLDER` of the producer's program")
	fs.StringVar(&c.work, "work", "", "the `FOLDER` for the CDK's output")
	fs.BoolVar(&c.onDemand, "on-demand", false, "pollers on demand instead of provisioned ones")
	fs.IntVar(&c.payments.Records, "records", 0, "send `N` records")
	fs.Uint64Var(&c.payments.Seed, "seed", 1, "the `SEED` of the payments")
	if err := fs.Parse(args); err != nil {
		return err
	}
	c.local = aws.Endpoint
	if err := c.complete(fs); err != nil {
		return err
	}
	cfg, err := aws.Load(ctx)
	if err != nil {
		return err
	}
	c.cfg, c.Streams = cfg, s
	plan := plan{onDemand: c.onDemand, local: c.local != "", region: cfg.Region, payments: c.payments}
	s.Sayf("%s", plan.text())
	if !*yes {
		if ok, err := command.Confirm(ctx, s, "Go on?"); err != nil || !ok {
			return errors.Join(err, errors.New("not confirmed: nothing was created"))
		}
	}
	r := &report{plan: plan, version: version, goVersion: runtime.Version(), modules: modules()}
	c.run(ctx, r)
	_, err = fmt.Fprint(s.Out, r.text())
	if err == nil && !r.ok() {
		return command.ErrReported
	}
	return err
}

// complete checks the flags, and sets defaults.
func (c *check) complete(fs *flag.FlagSet) error {
	for name, value := range map[string]string{"name": c.name, "handler": c.handler, "producer": c.producer,
		"work": c.work} {
		if value == "" {
			return command.Usagef("--%s is missing: run make aws-check", name)
		}
	}
	if fs.NArg() > 0 {
		return command.Unexpected(fs.Args())
	}
	if c.payments.Records == 0 {
		if c.payments.Records = records; c.local != "" {
			c.payments.Records = localRecords
		}
	}
	if n := c.payments.Records; n < 1 || n > payments.MaxRecords/100 {
		return command.Usagef("--records is %d: want 1 to %d", n, payments.MaxRecords/100)
	}
	c.payments.Copies, c.payments.FreezesPerMille = copiesShare, freezesPerMille
	return nil
}

// modules returns the versions of the modules that decide how the check behaves.
func modules() map[string]string {
	versions := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/aws/aws-sdk-go-v2", "github.com/twmb/franz-go":
			versions[m.Path] = m.Version
		}
	}
	return versions
}
