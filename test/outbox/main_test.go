//go:build rest

package outbox_test

import (
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testbed"
)

// patience is the maximum time that a test waits.
const patience = 3 * time.Minute

// servers are shared by the tests.
var servers *testbed.Servers

func TestMain(m *testing.M) {
	testbed.Main(m, pgserver.Config{}, func(s *testbed.Servers) { servers = s })
}
