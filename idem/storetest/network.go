package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

// KeepsLease checks that a handler keeps its lease of 3 seconds when the connections of its store stop
// answering: a heartbeat that times out leaves time for another one over a new connection. silence makes the
// open connections of under silent. direct reads the same entries over other connections.
func KeepsLease(t *testing.T, under store.Store, direct store.Admin, silence func()) {
	t.Helper()
	const lease, patience = 3 * time.Second, 30 * time.Second
	engine, err := idem.New(under, idem.Config{Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out := engine.Do(ctx, idem.Task{Key: "k",
		Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			begun, err := direct.Get(ctx, "k")
			silence()
			for entry := begun; err == nil && !entry.LeaseUntil.After(begun.LeaseUntil); {
				// until it has been extended
				entry, err = direct.Get(ctx, "k")
			}
			return nil, errors.Join(err, context.Cause(ctx))
		})})
	if out.Kind != idem.Executed {
		t.Errorf("%v: %v", out.Kind, out.Err)
	}
}
