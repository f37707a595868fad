package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/pgserver"
	"github.com/idemsk/idemsk/outbox/internal/kafkaserver"
)

// patience is how long a test waits for anything.
const patience = 60 * time.Second

var (
	postgres *pgserver.Server
	kafka    *kafkaserver.Server
)

func TestMain(m *testing.M) {
	if os.Getenv(tableEnv) != "" {
		os.Exit(relayUntilKilled())
	}
	ctx := context.Background()
	var errs [2]error
	var starting sync.WaitGroup
	starting.Go(func() { postgres, errs[0] = pgserver.Start(ctx, pgserver.Config{}) })
	kafka, errs[1] = kafkaserver.Start(ctx)
	starting.Wait()
	end := func() (err error) {
		if postgres != nil {
			err = postgres.Close()
		}
		if kafka != nil {
			err = errors.Join(err, kafka.Close())
		}
		return err
	}
	if err := errors.Join(errs[:]...); err != nil {
		fmt.Fprintln(os.Stderr, errors.Join(err, end()))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent(), goleak.Cleanup(func(code int) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}
