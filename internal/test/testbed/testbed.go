// Package testbed runs the tests of a package on a real PostgreSQL and a real Kafka, with relays in processes
// that can be killed.
package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/pgserver"
)

// Servers are shared by all tests of a package.
type Servers struct {
	Postgres *pgserver.Server
	Kafka    *serverproc.Script
}

// Main is a TestMain: it starts the servers, passes them on, runs the tests, checks for leaked goroutines and
// ends the servers. In a process of StartRelay it is the relay instead.
func Main(m *testing.M, cfg pgserver.Config, use func(Servers)) {
	if os.Getenv(tableEnv) != "" {
		os.Exit(relayUntilKilled())
	}
	servers, err := start(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, servers.close()))
		os.Exit(1)
	}
	use(servers)
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if err := servers.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

func start(ctx context.Context, cfg pgserver.Config) (s Servers, err error) {
	var errs [2]error
	var starting sync.WaitGroup
	starting.Go(func() { s.Postgres, errs[0] = pgserver.Start(ctx, cfg) })
	s.Kafka, errs[1] = serverproc.StartScript(ctx, serverproc.Kafka)
	starting.Wait()
	return s, errors.Join(errs[:]...)
}

func (s Servers) close() (err error) {
	if s.Postgres != nil {
		err = s.Postgres.Close()
	}
	if s.Kafka != nil {
		err = errors.Join(err, s.Kafka.Close())
	}
	return err
}
