//go:build rest

package local_test

import (
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// On PostgreSQL bookings commit with their completions: the ledger is exact although processes are killed,
// and paused until others have their partitions.
func TestConsumerProcessesBookOnceOnPostgreSQL(t *testing.T) {
	t.Parallel()
	o := onServer(t, testkit.Run(t, pgserver.Start, pgserver.Config{}).URL())
	o.Faults = local.Faults{Kill: 0.2, Concurrent: 0.2}
	if report := proven(t, o); len(report.Kills) == 0 || report.Concurrent == 0 {
		t.Errorf("%d kills and %d pauses; want some", len(report.Kills), report.Concurrent)
	}
}

// On Redis a booking does not commit with its completion, so the ledger is exact as long as no process is
// killed.
func TestConsumerProcessesBookOnceOnRedis(t *testing.T) {
	t.Parallel()
	proven(t, onServer(t, testkit.Run(t, redisserver.Start, redisserver.Config{}).URL()))
}

// onServer are options that run three processes on a server of PostgreSQL or Redis.
func onServer(t *testing.T, url string) local.Options {
	t.Helper()
	o, _ := processes(t, 3)
	o.Store, o.Produce, o.Copies, o.Prove = url, 2000, 0.3, true
	return o
}

// proven runs to the end and wants an exact ledger.
func proven(t *testing.T, o local.Options) *local.Report {
	t.Helper()
	report := mustRun(t, o)
	// The letters are counted in the queue: a process may be killed before it tells that it has sent one.
	if !report.Verified.OK() || report.Done != o.Produce || report.Messages == 0 || report.Outcomes.Replayed == 0 {
		t.Errorf("%+v\n%s", report, report.Text())
	}
	return report
}
