// Package testkit starts the servers that a test needs, and ends them with the test.
package testkit

import (
	"context"
	"io"
	"testing"
)

// Run starts a server that runs as soon as it exists, for example with pgserver.Start, and closes it when the
// test ends.
func Run[C any, S io.Closer](tb testing.TB, start func(context.Context, C) (S, error), cfg C) S {
	tb.Helper()
	server, err := start(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	CloseAtEnd(tb, server)
	return server
}

// Serve creates a server, for example with dynamofake.New, starts it, and closes it when the test ends.
func Serve[C any, S interface {
	io.Closer
	Start() error
}](tb testing.TB, create func(C) (S, error), cfg C) S {
	tb.Helper()
	server, err := create(cfg)
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	CloseAtEnd(tb, server)
	return server
}

// CloseAtEnd closes what the test uses when the test ends. An error fails the test.
func CloseAtEnd(tb testing.TB, c io.Closer) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
}
