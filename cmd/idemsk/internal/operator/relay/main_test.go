package relay_test

import (
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, nil) }
