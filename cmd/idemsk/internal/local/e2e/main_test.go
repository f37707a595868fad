//go:build rest

// Package e2e_test tests idemsk local end to end: a real Kafka, the event source, the real function as a
// process, DynamoDB Local.
package e2e_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
)

const root = "../../../../.."

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) {
	local.RunLayer(os.Args)
	os.Exit(handlertest.Main(m, &handler, handlertest.IdleConnections()...))
}

func bounded(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errors.New("the test took too long"))
	t.Cleanup(cancel)
	return ctx
}
