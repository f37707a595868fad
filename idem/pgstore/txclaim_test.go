//go:build servers

package pgstore_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
)

func txStore(t *testing.T, pool *pgxpool.Pool, table string) *pgstore.TxStore {
	t.Helper()
	s, err := pgstore.NewTx(pool, pgstore.TxConfig{Config: pgstore.Config{Table: table}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func claimOne(t *testing.T, s store.Store, req store.ClaimRequest, want store.ClaimState) store.ClaimResult {
	t.Helper()
	res := s.Claim(t.Context(), []store.ClaimRequest{req})[0]
	if res.State != want {
		t.Fatalf("state %d, error %v; want state %d: %+v", res.State, res.Err, want, res.Entry)
	}
	return res
}

// The lease of a process that died need not end: its transaction has.
func TestAKeyOfADeadProcessCanBeTakenAtOnce(t *testing.T) {
	pool := newPool(t, server.URL())
	table := newTable(t, pool)
	dead, alive := txStore(t, pool, table), txStore(t, pool, table)
	claimOne(t, dead, request("k", 1), store.Claimed)
	claimOne(t, alive, request("k", 2), store.ClaimInFlight)
	dead.Close()
	for ask[int](t, pool, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
		WHERE locktype = 'advisory'`) > 0 { // until the server has noticed
	}

	careful := request("k", 3)
	careful.TakeOver = false
	before := raw(t, pool, table, "k")
	claimOne(t, alive, careful, store.ClaimLeaseOver)
	if after := raw(t, pool, table, "k"); string(after) != string(before) {
		t.Errorf("a claim without TakeOver changed %s to %s", before, after)
	}
	res := claimOne(t, alive, request("k", 4), store.Claimed)
	if !res.Stolen || res.Entry.Attempts != 2 {
		t.Errorf("stolen %t, %d attempts; want true and 2", res.Stolen, res.Entry.Attempts)
	}
}

// A claim is sent again, as its connection was lost, and the server has not ended the first one's transaction yet.
func TestAClaimSentAgainWaitsForItsOwnTransaction(t *testing.T) {
	pool := newPool(t, server.URL())
	table := newTable(t, pool)
	claimOne(t, txStore(t, pool, table), request("k", 1), store.Claimed)
	res := claimOne(t, txStore(t, pool, table), request("k", 1), store.ClaimInFlight)
	if res.ClaimableIn <= 0 || res.ClaimableIn > time.Second {
		t.Errorf("claimable in %v; want some moments", res.ClaimableIn)
	}
}

func TestALeaseOfTheOtherModeIsKept(t *testing.T) {
	pool := newPool(t, server.URL())
	table := newTable(t, pool)
	leases, transactions := newStore(t, pool, pgstore.Config{Table: table}), txStore(t, pool, table)
	claimOne(t, leases, request("k", 1), store.Claimed)
	claimOne(t, transactions, request("k", 2), store.ClaimInFlight)
	claimOne(t, transactions, request("j", 1), store.Claimed)
	claimOne(t, leases, request("j", 2), store.ClaimInFlight)
}

func TestAnExtensionNeedsNoConnectionOfItsOwn(t *testing.T) {
	root := newPool(t, server.URL())
	pool, err := pgstore.NewPool(server.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	st := txStore(t, pool, newTable(t, root))
	rec := claimOne(t, st, request("k", 1), store.Claimed).Entry
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if errs := st.Settle(ctx, []store.Settlement{settlement(rec, store.OpExtend)}); errs != nil {
		t.Error(errs[0])
	}
	if errs := st.Settle(t.Context(), []store.Settlement{settlement(rec, store.OpComplete)}); errs != nil {
		t.Error(errs[0])
	}
}

func TestOneConnectionIsEnoughToBeRefused(t *testing.T) {
	root := newPool(t, server.URL())
	pool, err := pgstore.NewPool(server.URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	table, effects := newTable(t, root), unique("effects")
	execute(t, root, `CREATE TABLE `+effects+` (what text UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
	st := txStore(t, pool, table)
	engine, err := idem.New(st, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, handler := range map[string]pgstore.TxHandler{
		"its record is gone": func(ctx context.Context, _ pgx.Tx) ([]byte, error) {
			_, err := root.Exec(ctx, `DELETE FROM `+table)
			return nil, err
		},
		"a constraint refuses": func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, `INSERT INTO `+effects+` VALUES ('same'), ('same')`)
			return nil, err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if out := engine.Do(ctx, idem.Task{Key: name, Handler: st.Handler(handler)}); out.Kind != idem.Fenced || ctx.Err() != nil {
			t.Errorf("%s: %v: %v", name, out.Kind, out.Err)
		}
		cancel()
	}
}

func TestACallerThatGivesUpLeavesNoTransaction(t *testing.T) {
	pool := newPool(t, server.URL())
	table := newTable(t, pool)
	st := txStore(t, pool, table)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, op := range []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease} {
		rec := claimOne(t, st, request(op.String(), 1), store.Claimed).Entry
		st.Settle(ctx, []store.Settlement{settlement(rec, op)})
		wantGivenBack(t, pool)
	}
}

// wantGivenBack checks that no connection is held; one that is closed as it is given back is counted until then.
func wantGivenBack(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for limit := time.Now().Add(5 * time.Second); pool.Stat().AcquiredConns() > 0; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatalf("%d connections were not given back", pool.Stat().AcquiredConns())
		}
	}
}

// The charge of a fresh claim does not wait for the disk; that of a take-over does, as its token has been shown.
func TestWhichChargesWaitForTheDisk(t *testing.T) {
	pool := newPool(t, server.URL())
	st := newStore(t, pool, pgstore.Config{})
	for i, want := range []string{"off", "on"} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		var stolen bool
		if err := tx.QueryRow(t.Context(), st.ChargeSQL(), "k", fmt.Sprint(i), nil, "", 0, 3600_000, 0, true, 0, 1).Scan(&stolen); err != nil || stolen != (i == 1) {
			t.Fatalf("stolen %t, %v", stolen, err)
		}
		var got string
		if err := tx.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got); err != nil || got != want {
			t.Errorf("synchronous_commit is %s, %v; want %s", got, err, want)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
