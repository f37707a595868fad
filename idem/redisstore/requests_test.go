//go:build servers

package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
)

// count returns the round trips of f after its connection is open and its scripts are loaded.
func (w *wire) count(f func(n int)) int64 {
	f(1)
	w.trips.Store(0)
	f(2)
	return w.trips.Load()
}

func TestRoundTrips(t *testing.T) {
	for name, url := range map[string]string{"Redis": server.URL(), "Valkey": valkey.URL()} {
		t.Run(name, func(t *testing.T) { roundTrips(t, url) })
	}
}

func roundTrips(t *testing.T, url string) {
	var w wire
	st := newStore(t, newClient(t, url, w.option, unhurried), redisstore.Config{})
	batch := func(n int) (reqs []store.ClaimRequest) {
		for i := range redisstore.MaxBatchSize {
			reqs = append(reqs, request(fmt.Sprint("batch ", n, " ", i), i))
		}
		return reqs
	}
	small := []byte("a small result, which an answer contains")
	end := func(entry store.Entry, op store.SettleOp, result []byte) {
		set := settlement(entry, op)
		set.Result = result
		if err := settle(t, st, set); err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct {
		name string
		do   func(n int)
		want int64
	}{
		{"a new key", func(n int) {
			end(mustClaim(t, st, request(fmt.Sprint("fresh ", n), n)),
				store.OpComplete, small)
		}, 2},
		{"a duplicate", func(n int) { claim(t, st, request("fresh 1", 10+n)) }, 1},
		{"a new key with a result of 4 KiB, and a duplicate", func(n int) {
			end(mustClaim(t, st, request(fmt.Sprint("4 KiB ", n), n)), store.OpComplete, make([]byte, 4<<10))
			claim(t, st, request(fmt.Sprint("4 KiB ", n), 10+n))
		}, 3},
		{"a larger result", func(n int) {
			end(mustClaim(t, st, request(fmt.Sprint("larger ", n), n)), store.OpComplete, make([]byte, 4<<10+1))
			claim(t, st, request(fmt.Sprint("larger ", n), 10+n))
		}, 4},
		{"a release", func(n int) {
			end(mustClaim(t, st, request(fmt.Sprint("released ", n), n)),
				store.OpRelease, nil)
		}, 2},
		{"a re-claim", func(n int) { mustClaim(t, st, request(fmt.Sprint("released ", n), 10+n)) }, 1},
		{"a key in flight elsewhere", func(n int) { claim(t, st, request("released 1", 20+n)) }, 1},
		{"100 fresh records", func(n int) {
			var ss []store.Settlement
			for _, res := range st.Claim(t.Context(), batch(n)) {
				ss = append(ss, settlement(res.Entry, store.OpComplete))
			}
			if errs := st.Settle(t.Context(), ss); errs != nil {
				t.Error(errs)
			}
		}, 2},
		{"100 duplicates", func(n int) { st.Claim(t.Context(), batch(n)) }, 1},
	} {
		got := w.count(tc.do)
		if got != tc.want {
			t.Errorf("%s: %d round trips; want %d", tc.name, got, tc.want)
		}
	}
}

func TestScriptsAreLoadedAgainAfterARestart(t *testing.T) {
	srv := ownServer(t, nil)
	var w wire
	st := newStore(t, newClient(t, srv.URL(), w.option, unhurried), redisstore.Config{})
	entry := mustClaim(t, st, request("a", 1))
	do(t, srv, "SCRIPT", "FLUSH")
	w.trips.Store(0)
	if err := settle(t, st, settlement(entry, store.OpComplete)); err != nil {
		t.Fatal(err)
	}
	if got := w.trips.Load(); got != 2 {
		t.Errorf("%d round trips; want 2: EVALSHA and EVAL", got)
	}
	do(t, srv, "SCRIPT", "FLUSH")
	reqs := []store.ClaimRequest{request("a", 2), request("b", 3), request("c", 4)}
	for i, want := range []store.ClaimState{store.ClaimCompleted, store.Claimed, store.Claimed} {
		if res := st.Claim(t.Context(), reqs)[i]; res.State != want {
			t.Errorf("%d: state %d, error %v; want state %d", i, res.State, res.Err, want)
		}
	}
}
