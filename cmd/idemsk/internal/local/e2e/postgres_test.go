//go:build rest

package e2e_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// On PostgreSQL a booking commits with its completion: with kills no payment is booked twice, and the ledger
// is exact.
func TestKillsOnPostgreSQL(t *testing.T) {
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	program := filepath.Join(t.TempDir(), "bootstrap")
	if err := handlertest.Build(program, handlertest.Package+"/postgres"); err != nil {
		t.Fatal(err)
	}
	o := options(t, testkit.Size(t, 1000, 5000), local.Faults{Duplicate: 0.3, Concurrent: 0.3, Kill: 0.3})
	o.Function, o.Store, o.ESM.Pollers, o.ESM.BatchSize = "'"+program+"'", server.URL(), 3, 50
	report := finish(t, o, 10*time.Minute)
	if len(report.Verified.Off) != 0 || len(report.Kills) == 0 {
		t.Errorf("off by %v after %d kills; want nothing, after some", report.Verified.Off, len(report.Kills))
	}
}
