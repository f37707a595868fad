package store_test

import (
	"testing"
	"time"
)

const (
	testKey = "payments#17"
	lease   = 30 * time.Second
)

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}
