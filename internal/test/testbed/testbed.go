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

	startKafka sync.Once
	kafka      *serverproc.Script
	kafkaErr   error
}

// Kafka returns the broker. Its first use starts it.
func (s *Servers) Kafka(tb testing.TB) *serverproc.Script {
	tb.Helper()
	s.startKafka.Do(func() {
		s.kafka, s.kafkaErr = serverproc.StartScript(context.Background(), serverproc.Kafka)
	})
	if s.kafkaErr != nil {
		tb.Fatal(s.kafkaErr)
	}
	return s.kafka
}

// Main is a TestMain: it starts PostgreSQL, passes the servers on, runs the tests, checks for leaked
// goroutines and ends the servers. In a process of StartRelay it is the relay instead.
func Main(m *testing.M, cfg pgserver.Config, use func(*Servers)) {
	if os.Getenv(tableEnv) != "" {
		os.Exit(relayUntilKilled())
	}
	postgres, err := pgserver.Start(context.Background(), cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	servers := &Servers{Postgres: postgres}
	use(servers)
	goleak.VerifyTestMain(closing{m, servers})
}

// closing ends the servers after the tests.
type closing struct {
	*testing.M
	servers *Servers
}

// Run implements goleak.TestingM.
func (c closing) Run() int {
	code := c.M.Run()
	if err := c.servers.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func (s *Servers) close() error {
	err := s.Postgres.Close()
	if s.kafka != nil {
		err = errors.Join(err, s.kafka.Close())
	}
	return err
}
