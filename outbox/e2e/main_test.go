//go:build servers

package e2e_test

import (
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/pgserver"
	"github.com/idemsk/idemsk/outbox/internal/testbed"
)

// patience is how long a test waits for anything.
const patience = 60 * time.Second

// servers are those that the tests share.
var servers testbed.Servers

func TestMain(m *testing.M) {
	testbed.Main(m, pgserver.Config{}, func(s testbed.Servers) { servers = s })
}
