package verb_test

import (
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
)

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) { clitest.Main(m, &handler) }
