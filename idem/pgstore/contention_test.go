//go:build servers

package pgstore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
)

// conflicts are errors that a trigger on a table raises instead of writing.
type conflicts struct {
	*testing.T
	pool     *pgxpool.Pool
	sequence string // its next value is the number of the next write
}

// newConflicts adds the trigger. Every write of the table counts, also one that is rolled back, since a
// sequence is not part of a transaction.
func newConflicts(t *testing.T, pool *pgxpool.Pool, table, state string) *conflicts {
	t.Helper()
	c := &conflicts{T: t, pool: pool, sequence: table + "_writes"}
	execute(t, pool, `CREATE SEQUENCE `+c.sequence+` MINVALUE -1000000 START 1`)
	execute(t, pool, `CREATE FUNCTION `+table+`_conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('`+c.sequence+`') <= 0 THEN RAISE EXCEPTION 'injected' USING ERRCODE = '`+state+`'; END IF;
		RETURN coalesce(NEW, OLD);
	END $$`)
	execute(t, pool, `CREATE TRIGGER conflict BEFORE INSERT OR UPDATE OR DELETE ON `+table+
		` FOR EACH ROW EXECUTE FUNCTION `+table+`_conflict()`)
	return c
}

// next makes the next n writes fail.
func (c *conflicts) next(n int) {
	c.Helper()
	execute(c, c.pool, `SELECT setval('`+c.sequence+`', $1, false)`, 1-n)
}

// left returns how many of them are still to come.
func (c *conflicts) left() int {
	c.Helper()
	return ask[int](c, c.pool, `SELECT 1 - last_value - is_called::int FROM `+c.sequence)
}

const many = 100_000

// eachConflict runs a test with each error of a transaction that the server ended because of another one.
func eachConflict(t *testing.T, f func(t *testing.T, st *pgstore.Store, met *conflicts)) {
	for name, state := range map[string]string{"serialization failure": "40001", "deadlock": "40P01",
		"lock timeout": "55P03"} {
		t.Run(name, func(t *testing.T) {
			pool := newPool(t, server.URL())
			st := newStore(t, pool, pgstore.Config{})
			f(t, st, newConflicts(t, pool, st.Table(), state))
		})
	}
}

func TestConflictIsRetried(t *testing.T) {
	eachConflict(t, func(t *testing.T, st *pgstore.Store, met *conflicts) {
		met.next(pgstore.MaxTries - 1)
		entry := claimOne(t, st, request("k", 1), store.Claimed).Entry
		met.next(pgstore.MaxTries - 1)
		if errs := st.Settle(t.Context(),
			[]store.Settlement{settlement(entry, store.OpComplete)}); errs != nil {
			t.Error(errs[0])
		}
		if left := met.left(); left > 0 {
			t.Errorf("%d conflicts were not met", left)
		}
	})
}

// A claim that conflicts in all tries finds its key in flight, with a pause before the next claim. A batch
// fails together.
func TestLastingConflictOfAClaimIsAKeyInFlight(t *testing.T) {
	eachConflict(t, func(t *testing.T, st *pgstore.Store, met *conflicts) {
		met.next(many)
		reqs := []store.ClaimRequest{request("a", 1), request("b", 1)}
		for _, res := range st.Claim(t.Context(), reqs) {
			if res.State != store.ClaimInFlight || res.Err != nil || res.ClaimableIn <= 0 ||
				res.ClaimableIn > time.Second {
				t.Errorf("state %d, error %v, claimable in %v; want in flight, for up to a second", res.State,
					res.Err, res.ClaimableIn)
			}
		}
		if tries := many - met.left(); tries != pgstore.MaxTries {
			t.Errorf("%d tries; want %d", tries, pgstore.MaxTries)
		}
		met.next(0)
		for _, res := range st.Claim(t.Context(), reqs) {
			if res.State != store.Claimed || res.Entry.Attempts != 1 {
				t.Errorf("then state %d, error %v, %d attempts; want claimed, 1", res.State, res.Err,
					res.Entry.Attempts)
			}
		}
	})
}

// A row that another transaction holds for longer than lock_timeout is contention.
func TestLockTimeoutIsErrContended(t *testing.T) {
	st := newStore(t, newPool(t, server.URL()+"&lock_timeout=20ms"), pgstore.Config{})
	entry := claimOne(t, st, request("k", 1), store.Claimed).Entry
	holder, err := newPool(t, server.URL()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT FROM `+st.Table()+` FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if err := st.Settle(t.Context(), []store.Settlement{settlement(entry, store.OpRelease)})[0]; !errors.Is(
		err, store.ErrContended) {
		t.Errorf("a settlement: %v; want ErrContended", err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if errs := st.Settle(t.Context(), []store.Settlement{settlement(entry, store.OpRelease)}); errs != nil {
		t.Errorf("then %v", errs)
	}
}

// Of two take-overs of one lease that is over, the second one waits for the first, and then sees its lease.
func TestTakeOverSeesTheOneBefore(t *testing.T) {
	pool := newPool(t, server.URL())
	st := newStore(t, pool, pgstore.Config{MaxClockSkew: -1})
	req := request("k", 1)
	req.Lease = 0
	claimOne(t, st, req, store.Claimed)
	first, err := newPool(t, server.URL()).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(t.Context(),
		`UPDATE `+st.Table()+` SET version = version + 1, owner = 'first', attempts = 2, lease_until = now() + '1 hour'`); err != nil {
		t.Fatal(err)
	}
	req.Owner, req.TakeOver = "second", true
	second := make(chan store.ClaimResult, 1)
	go func() { second <- st.Claim(t.Context(), []store.ClaimRequest{req})[0] }()
	for !ask[bool](t, pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`, first.Conn().PgConn().PID()) {
		if len(second) > 0 {
			t.Fatalf("the second take-over did not wait: %+v", <-second)
		}
		runtime.Gosched()
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := <-second; res.State != store.ClaimInFlight || res.Entry.Owner != "first" ||
		res.Entry.Attempts != 2 {
		t.Errorf("state %d, error %v, %+v; want the key in flight, of the first", res.State, res.Err,
			res.Entry)
	}
}

func TestLastingConflictOfASettlementIsErrContended(t *testing.T) {
	eachConflict(t, func(t *testing.T, st *pgstore.Store, met *conflicts) {
		contended := func(op string, err error) {
			t.Helper()
			if !errors.Is(err, store.ErrContended) || !strings.Contains(err.Error(), op) ||
				!strings.Contains(err.Error(), "try again") {
				t.Errorf("%s: %v; want ErrContended", op, err)
			}
		}
		entry := claimOne(t, st, request("k", 1), store.Claimed).Entry
		met.next(many)
		for _, op := range []store.SettleOp{store.OpExtend, store.OpRelease, store.OpComplete, store.OpFail} {
			contended(op.String(), st.Settle(t.Context(), []store.Settlement{settlement(entry, op)})[0])
		}
		contended("delete", st.Delete(t.Context(), "k", entry.Token))
		met.next(0)
		if now, err := st.Get(t.Context(), "k"); err != nil || now.Status != store.StatusStarted ||
			now.Token != entry.Token {
			t.Errorf("%v, %+v; want it unchanged", err, now)
		}
		if errs := st.Settle(t.Context(),
			[]store.Settlement{settlement(entry, store.OpComplete)}); errs != nil {
			t.Errorf("then %v", errs)
		}
	})
}

// Conflicts do not make an engine that fails open call the handler without protection.
func TestConflictsAreNoOutage(t *testing.T) {
	eachConflict(t, func(t *testing.T, st *pgstore.Store, met *conflicts) {
		e, err := idem.New(st, idem.Config{FailOpen: true})
		if err != nil {
			t.Fatal(err)
		}
		runs := 0
		do := func(key string, limit time.Duration) idem.Outcome {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			return e.Do(ctx, idem.Task{Key: key,
				Handler: idem.HandlerFunc(func(context.Context) ([]byte, error) {
					runs++
					if key == "completion" {
						met.next(many)
					}
					return nil, nil
				})})
		}
		met.next(2 * pgstore.MaxTries)
		if out := do("claim", time.Minute); out.Kind != idem.Executed || runs != 1 { // the claim waits
			t.Errorf("a conflict of claims: %v, %v, %d runs", out.Kind, out.Err, runs)
		}
		// The deadline may end a try, instead of the pause between two.
		if out := do("completion", 4*time.Second); out.Kind != idem.CompletionFailed ||
			!errors.Is(out.Err, store.ErrContended) && !errors.Is(out.Err, context.DeadlineExceeded) {
			t.Errorf("a conflict of a completion: %v, %v", out.Kind, out.Err)
		}
		met.next(0)
		if out := do("next", time.Minute); out.Kind != idem.Executed || runs != 3 {
			t.Errorf("then %v, %v, %d runs; want Executed, 3", out.Kind, out.Err, runs)
		}
	})
}
