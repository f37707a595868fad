//go:build servers

package pgstore_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// wire counts round trips: a round trip is an answer after a request.
type wire struct{ trips atomic.Int64 }

func (w *wire) option(c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return &countedConn{Conn: conn, wire: w}, err
	}
}

type countedConn struct {
	net.Conn
	wire *wire
	sent atomic.Bool
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.sent.Store(true)
	return c.Conn.Write(p)
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.sent.Swap(false) {
		c.wire.trips.Add(1)
	}
	return n, err
}

// count returns the round trips of f after its statements were prepared.
func (w *wire) count(f func(n int)) int64 {
	f(1)
	w.trips.Store(0)
	f(2)
	return w.trips.Load()
}

func request(key string, owner int) store.ClaimRequest {
	return store.ClaimRequest{Key: key, Owner: fmt.Sprint("owner-", owner), Source: "payments-3@17",
		Lease: 30 * time.Second, Retention: time.Hour, TakeOver: true}
}

func settlement(entry store.Entry, op store.SettleOp) store.Settlement {
	return store.Settlement{
		Op: op, Key: entry.Key, Token: entry.Token, Owner: entry.Owner, Retention: time.Hour,
		Lease:   time.Minute,
		Failure: &store.Failure{Code: store.CodeError, Message: "boom"},
	}
}

func TestRoundTrips(t *testing.T) {
	var w wire
	pool := newPool(t, server.URL(), w.option)
	st := newStore(t, pool, pgstore.Config{})
	claim := func(key string, owner int) store.Entry {
		return st.Claim(t.Context(), []store.ClaimRequest{request(key, owner)})[0].Entry
	}
	settle := func(entry store.Entry, op store.SettleOp) {
		if errs := st.Settle(t.Context(), []store.Settlement{settlement(entry, op)}); errs != nil {
			t.Error(errs[0])
		}
	}
	batch := func(n int) (reqs []store.ClaimRequest) {
		for i := range pgstore.MaxBatchSize {
			reqs = append(reqs, request(fmt.Sprint("batch ", n, " ", i), i))
		}
		return reqs
	}
	for _, tc := range []struct {
		name string
		do   func(n int)
		want int64
	}{
		{"a fresh record", func(n int) { settle(claim(fmt.Sprint("fresh ", n), n), store.OpComplete) }, 2},
		{"a duplicate", func(n int) { claim("fresh 1", 10+n) }, 1},
		{"a release", func(n int) { settle(claim(fmt.Sprint("released ", n), n), store.OpRelease) }, 2},
		{"a re-claim", func(n int) { claim(fmt.Sprint("released ", n), 10+n) }, 1},
		{"a key in flight elsewhere", func(n int) { claim("released 1", 20+n) }, 1},
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
		if got := w.count(tc.do); got != tc.want {
			t.Errorf("%s: %d round trips; want %d", tc.name, got, tc.want)
		}
	}
}

func TestRoundTripsOfTransactions(t *testing.T) {
	var w wire
	pool := newPool(t, server.URL(), w.option)
	effects := unique("effects")
	execute(t, pool, `CREATE TABLE `+effects+` (n int)`)
	st := newStore(t, pool, pgstore.Config{})
	engine, err := idem.New(st, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	task := func(key string, statements int, fails error) idem.Outcome {
		return engine.Do(t.Context(), idem.Task{Key: key,
			Handler: txHandler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				for n := range statements {
					if _, err := tx.Exec(ctx, `INSERT INTO `+effects+` VALUES ($1)`, n); err != nil {
						return nil, err
					}
				}
				return nil, fails
			})})
	}
	for _, tc := range []struct {
		name string
		do   func(n int)
		want int64
	}{
		{"a fresh record, but for its handler's", func(n int) { task(fmt.Sprint("fresh ", n), 0, nil) }, 3},
		{"a fresh record whose handler has three", func(n int) { task(fmt.Sprint("three ", n), 3, nil) }, 6},
		{"a duplicate", func(int) { task("fresh 1", 0, nil) }, 1},
		{"a failed attempt", func(n int) { task(fmt.Sprint("failed ", n), 0, fmt.Errorf("boom")) }, 4},
	} {
		if got := w.count(tc.do); got != tc.want {
			t.Errorf("%s: %d round trips; want %d", tc.name, got, tc.want)
		}
	}
}
