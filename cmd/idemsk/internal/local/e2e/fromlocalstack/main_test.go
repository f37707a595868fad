//go:build rest

// Package fromlocalstack_test tests idemsk local end to end with an event source mapping that is deployed in
// LocalStack.
package fromlocalstack_test

import (
	"os"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
)

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) { os.Exit(handlertest.Main(m, &handler, handlertest.IdleConnections()...)) }
