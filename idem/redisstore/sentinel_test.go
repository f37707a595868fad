//go:build servers

package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// The store follows the primary that Sentinels name: after a crash, and when a primary that works is demoted.
func TestSentinelsLeadToThePrimary(t *testing.T) {
	for _, kind := range []redisserver.Kind{redisserver.Redis, redisserver.Valkey} {
		t.Run(string(kind)+", a crash", func(t *testing.T) {
			t.Parallel()
			testSentinels(t, kind, func(primary *redisserver.Server, _ *redisserver.Sentinels) error {
				return primary.Crash()
			})
		})
		t.Run(string(kind)+", a failover", func(t *testing.T) {
			t.Parallel()
			testSentinels(t, kind, func(_ *redisserver.Server, s *redisserver.Sentinels) error {
				return s.Failover(t.Context())
			})
		})
	}
}

// testSentinels demotes a primary, and checks that the store goes on with its replica.
func testSentinels(t *testing.T, kind redisserver.Kind,
	demote func(*redisserver.Server, *redisserver.Sentinels) error) {
	t.Helper()
	primary := testkit.Run(t, redisserver.Start, redisserver.Config{Kind: kind})
	replica, err := primary.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, replica)
	sentinels := testkit.Run(t, redisserver.StartSentinels, primary)
	st := newStore(t, newClient(t, sentinels.URL()), redisstore.Config{})
	if err := st.Check(t.Context()); !errors.Is(err, redisstore.ErrNotDurable) {
		t.Errorf("the check of the primary: %v; want that it keeps no file, and nothing else", err)
	}
	done, held := mustClaim(t, st, request("done", 1)), mustClaim(t, st, request("held", 1))
	if err := settle(t, st, settlement(done, store.OpComplete)); err != nil {
		t.Fatal(err)
	}
	if got := do(t, primary, "WAIT", 1, 0); got != int64(1) { // the replica has it
		t.Fatal(got)
	}
	if err := demote(primary, sentinels); err != nil {
		t.Fatal(err)
	}
	if err := sentinels.Follow(t.Context(), replica); err != nil {
		t.Fatal(err)
	}
	untilClaimed(t, st, replica, "fresh")
	if res := claim(t, st, request("done", 2)); res.State != store.ClaimCompleted {
		t.Errorf("a key that was completed: state %d, error %v", res.State, res.Err)
	}
	if err := settle(t, st, settlement(held, store.OpComplete)); err != nil {
		t.Errorf("a key that is held can't be completed: %v", err)
	}
}

// untilClaimed claims keys until one is on this server.
func untilClaimed(t *testing.T, st *redisstore.Store, srv *redisserver.Server, prefix string) {
	t.Helper()
	for began, n := time.Now(), 0; ; n++ {
		key := fmt.Sprint(prefix, n)
		res := claim(t, st, request(key, 1))
		switch {
		case res.State == store.Claimed && do(t, srv, "EXISTS", st.Name(key)) == int64(1):
			return
		case time.Since(began) > patience:
			t.Fatalf("no key is claimed on the new primary: %v", res.Err)
		}
	}
}
