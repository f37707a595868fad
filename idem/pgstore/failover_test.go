//go:build rest

package pgstore_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/pgserver"
)

// pair is a primary and its standby. Their URL names the standby first, and target_session_attrs skips it.
type pair struct {
	*testing.T
	primary, standby *pgserver.Server
	pool             *pgxpool.Pool
}

// The values of synchronous_commit: what the primary waits for before it answers.
const (
	itself    = "local"
	onStandby = "on"           // the standby's disk
	applied   = "remote_apply" // applied and visible on the standby
)

// newPair starts a pair.
func newPair(t *testing.T, waitFor string) *pair {
	t.Helper()
	settings := map[string]string{"synchronous_commit": waitFor}
	if waitFor != itself {
		settings["synchronous_standby_names"] = "*"
	}
	p := &pair{T: t, primary: ownServer(t, settings)}
	var err error
	if p.standby, err = p.primary.Standby(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.standby.Close(); err != nil {
			t.Error(err)
		}
	})
	p.pool = newPool(t, pgserver.FailoverURL(p.standby, p.primary))
	return p
}

func (p *pair) crash() {
	p.Helper()
	if err := p.primary.Crash(); err != nil {
		p.Error(err)
	}
}

func (p *pair) promote() {
	p.Helper()
	if err := p.standby.Promote(p.Context()); err != nil {
		p.Error(err)
	}
}

func TestFailoverDuringBatchLosesNothing(t *testing.T) {
	t.Parallel()
	claim := func(t *testing.T, st *pgstore.Store) (ss []store.Settlement) {
		t.Helper()
		for i, res := range st.Claim(t.Context(), hundred()) {
			if res.State != store.Claimed || res.Entry.Attempts != 1 {
				t.Fatalf("%d: state %d, error %v, %+v", i, res.State, res.Err, res.Entry)
			}
			ss = append(ss, settlement(res.Entry, store.OpComplete))
		}
		return ss
	}
	for _, batch := range []string{"of claims", "of completions"} {
		t.Run(batch, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, onStandby)
			st := newStore(t, p.pool, pgstore.Config{})
			failOver := func(int) {
				p.crash()
				err := st.Claim(t.Context(), []store.ClaimRequest{request("meanwhile", 1)})[0].Err
				if err == nil || !strings.Contains(err.Error(), "takes writes") {
					t.Errorf("claim between crash and promotion: %v", err)
				}
				p.promote()
			}
			var ss []store.Settlement
			if batch == "of claims" {
				results := inMidBatch(t, p.pool, st.Table(),
					func() []store.ClaimResult { return st.Claim(t.Context(), hundred()) }, failOver)
				for _, res := range results {
					if err := res.Err; err != nil &&
						!strings.Contains(err.Error(), "being stopped or started") &&
						!strings.Contains(err.Error(), "takes writes") {
						t.Fatal(err)
					}
				}
				ss = claim(t, st) // retried by the same owners
			} else {
				ss = claim(t, st)
				inMidBatch(t, p.pool, st.Table(), func() []error { return st.Settle(t.Context(), ss) },
					failOver)
			}
			if errs := st.Settle(t.Context(), ss); errs != nil {
				t.Fatal(errs)
			}
			for i, res := range st.Claim(t.Context(), hundred()) {
				if res.State != store.ClaimCompleted || res.Entry.Attempts != 1 {
					t.Fatalf("%d: state %d, error %v, %+v", i, res.State, res.Err, res.Entry)
				}
			}
		})
	}
}

// landed waits until the standby has the commit that the primary may not have answered.
func (p *pair) landed() {
	p.Helper()
	for !ask[bool](p, p.pool, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep') AND
		(SELECT bool_and(flush_lsn >= pg_current_wal_flush_lsn()) FROM pg_stat_replication)`) {
	}
}

// A commit that reached the standby but was not answered before the primary crashed is not repeated.
func TestUnansweredCommitOnStandbyCountsOnce(t *testing.T) {
	t.Parallel()
	failOver := func(p *pair, work func()) {
		there := newPool(t, p.standby.URL())
		execute(t, there, `SELECT pg_wal_replay_pause()`)
		done := make(chan struct{})
		go func() {
			defer close(done)
			work()
		}()
		p.landed()
		p.crash()
		p.promote()
		<-done
	}
	t.Run("completions", func(t *testing.T) {
		t.Parallel()
		var ss []store.Settlement
		p := newPair(t, applied)
		st := newStore(t, p.pool, pgstore.Config{})
		for _, res := range st.Claim(t.Context(), hundred()) {
			ss = append(ss, settlement(res.Entry, store.OpComplete))
		}
		failOver(p, func() { st.Settle(t.Context(), ss) })
		if errs := st.Settle(t.Context(), ss); errs != nil {
			t.Error(errs)
		}
	})
	t.Run("claims", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, applied)
		st := newStore(t, p.pool, pgstore.Config{})
		failOver(p, func() { st.Claim(t.Context(), hundred()) })
		for i, res := range st.Claim(t.Context(), hundred()) {
			if res.State != store.Claimed || res.Entry.Attempts != 1 {
				t.Fatalf("%d: state %d, error %v, %+v", i, res.State, res.Err, res.Entry)
			}
		}
	})
	t.Run("a transaction", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, applied)
		b := newBank(t, p.pool, idem.Config{})
		claimed, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan idem.Outcome, 1)
		task := b.task("k", b.pays("first", nil))
		pay := task.Handler
		task.Handler = idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			close(claimed)
			<-goOn
			return pay.Handle(ctx)
		})
		go func() { ended <- b.engine.Do(t.Context(), task) }()
		<-claimed
		failOver(p, func() { close(goOn); b.want(<-ended, idem.Executed) })
		out := b.engine.Do(t.Context(), b.task("k", b.pays("second", nil)))
		b.want(out, idem.Replayed)
		if string(out.Result) != "first" || b.effects() != 1 {
			t.Errorf("replayed %q, %d effects", out.Result, b.effects())
		}
	})
}

const (
	loadWorkers  = 8
	loadPayments = 400
)

// load is a set of payments that several workers deliver repeatedly until they are settled. The result of a
// payment is the number of the run of its handler.
type load struct {
	*pair
	engine  *idem.Engine
	handler func(n int) idem.Handler
	table   string

	runs     [loadPayments]atomic.Int64
	settled  atomic.Int64
	inside   chan struct{} // one element for each handler that runs at the crash
	crashing atomic.Bool   // handlers wait for it
	crashed  chan struct{}

	mu       sync.Mutex
	told     map[int]string // the first result of a payment that its worker received
	executed map[int]int    // how often the outcome Executed was returned for a payment
}

func newLoad(t *testing.T, p *pair, inTransaction bool) *load {
	t.Helper()
	l := &load{
		pair: p, table: newTable(t, p.pool), inside: make(chan struct{}, loadWorkers),
		crashed: make(chan struct{}),
		told:    make(map[int]string), executed: make(map[int]int),
	}
	cfg := idem.Config{Lease: time.Second}
	st := newStore(t, p.pool, pgstore.Config{Table: l.table})
	l.handler = func(n int) idem.Handler {
		return idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			return l.result(n),
				l.perhapsCrash(ctx)
		})
	}
	if inTransaction {
		execute(t, p.pool, `CREATE TABLE `+l.table+`_effects (run text)`)
		l.handler = func(n int) idem.Handler {
			return txHandler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
				result := l.result(n)
				if _, err := tx.Exec(ctx, `INSERT INTO `+l.table+`_effects VALUES ($1)`,
					string(result)); err != nil {
					return nil, err
				}
				err := l.perhapsCrash(ctx)
				if err == nil && n%2 == 0 { // for odd n the completion finds that the transaction is lost
					_, err = tx.Exec(ctx, `SELECT`)
				}
				return result, err
			})
		}
	}
	var err error
	if l.engine, err = idem.New(st, cfg); err != nil {
		t.Fatal(err)
	}
	return l
}

// result returns the number of the next run as a result.
func (l *load) result(n int) []byte { return fmt.Append(nil, n, " by run ", l.runs[n].Add(1)) }

// perhapsCrash makes a handler wait for the primary's crash, if one is due.
func (l *load) perhapsCrash(ctx context.Context) error {
	if !l.crashing.Load() {
		return nil
	}
	select {
	case l.inside <- struct{}{}:
	case <-l.crashed:
	}
	select {
	case <-l.crashed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deliver delivers payments until all of them are settled.
func (l *load) deliver(from, to int) {
	var wg sync.WaitGroup
	for w := range loadWorkers {
		wg.Go(func() {
			for n := from + w; n < to; n += loadWorkers {
				l.deliverOne(n)
			}
		})
	}
	wg.Wait()
}

func (l *load) deliverOne(n int) {
	task := idem.Task{Key: fmt.Sprint("payment-", n), Fingerprint: store.FingerprintOf(fmt.Append(nil, n)),
		Source: fmt.Sprint("payments-0@", n), Handler: l.handler(n)}
	for limit := time.Now().Add(time.Minute); ; <-time.After(workersPause) {
		ctx, cancel := context.WithTimeout(l.Context(), 20*time.Second)
		out := l.engine.Do(ctx, task)
		cancel()
		if out.Kind.Settled() {
			l.note(n, out)
			return
		}
		if time.Now().After(limit) {
			l.Errorf("payment %d is not settled after a minute: %v: %v", n, out.Kind, out.Err)
			return
		}
	}
}

func (l *load) note(n int, out idem.Outcome) {
	l.settled.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if out.Kind == idem.Executed {
		l.executed[n]++
	}
	if first, before := l.told[n]; before && first != string(out.Result) {
		l.Errorf("payment %d: told %q first, and then, %v, %q", n, first, out.Kind, out.Result)
	}
	l.told[n] = string(out.Result)
}

// reach waits until n payments are settled.
func (l *load) reach(settled int64) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for l.settled.Load() < settled {
		select {
		case <-ticker.C:
		case <-l.Context().Done():
			return
		}
	}
}

// wantOnce checks on the server that each payment is settled once, with the result that its worker received.
func (l *load) wantOnce(inTransaction bool) {
	l.Helper()
	if n := ask[int](l, l.pool, `SELECT count(*) FROM `+l.table+
		` WHERE status = 'COMPLETED'`); n != loadPayments {
		l.Errorf("%d keys are completed; want %d", n, loadPayments)
	}
	for n, times := range l.executed {
		if times != 1 {
			l.Errorf("payment %d: told %d times that it is executed", n, times)
		}
	}
	if !inTransaction {
		return
	}
	rows, err := l.pool.Query(l.Context(), `SELECT run FROM `+l.table+`_effects`)
	if err != nil {
		l.Fatal(err)
	}
	effects, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		l.Fatal(err)
	}
	if want := slices.Sorted(maps.Values(l.told)); !slices.Equal(slices.Sorted(slices.Values(effects)),
		want) {
		l.Errorf("%d effects, which are not those that the workers were told of:\n%v\n%v", len(effects),
			effects, want)
	}
}

// The primary crashes under load, its synchronous standby takes over, and all payments are redelivered.
func TestFailoverUnderLoadLosesNothing(t *testing.T) {
	for name, inTransaction := range map[string]bool{"plain": false, "in transactions": true} {
		t.Run(name+", all workers inside handlers", func(t *testing.T) {
			l := newLoad(t, newPair(t, onStandby), inTransaction)
			again := l.failOver(func() {
				l.crashing.Store(true)
				for range loadWorkers {
					<-l.inside
				}
			})
			l.wantOnce(inTransaction)
			if inTransaction && again < loadWorkers {
				t.Errorf("%d handlers ran again; want at least the %d that were interrupted", again,
					loadWorkers)
			}
		})
		t.Run(name+", at any moment", func(t *testing.T) {
			l := newLoad(t, newPair(t, onStandby), inTransaction)
			l.failOver(func() {})
			l.wantOnce(inTransaction)
		})
	}
}

// failOver delivers the payments, fails over when a quarter of them is settled, and redelivers all of them.
// It returns the number of additional runs of handlers.
func (l *load) failOver(before func()) (again int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.deliver(0, loadPayments)
	}()
	l.reach(loadPayments / 4)
	before()
	l.crash()
	close(l.crashed)
	l.promote()
	<-done
	l.deliver(0, loadPayments)
	for n := range l.runs {
		again += int(l.runs[n].Load()) - 1
	}
	l.Logf("%d payments, %d handlers ran again", loadPayments, again)
	return again
}

// docs/stores-postgres.md names what a failover to an asynchronous standby may lose: completions, and in
// transactions their effects with them.
func TestAsynchronousStandbyLosesUnreplicatedCommits(t *testing.T) {
	for name, inTransaction := range map[string]bool{"plain": false, "in transactions": true} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, itself)
			l := newLoad(t, p, inTransaction)
			l.deliver(0, loadPayments/2)
			at := ask[string](t, p.pool, `SELECT pg_current_wal_lsn()::text`)
			for !ask[bool](t, p.pool, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE flush_lsn >= $1::pg_lsn)`, at) {
			}
			if err := p.standby.Stop(); err != nil { // simulates replication lag
				t.Fatal(err)
			}
			l.deliver(loadPayments/2, loadPayments)
			p.crash()
			if err := p.standby.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.promote()
			clear(l.executed)
			for n := loadPayments / 2; n < loadPayments; n++ {
				delete(l.told, n)
			}
			l.deliver(0, loadPayments)
			if len(l.executed) != loadPayments/2 {
				t.Errorf("%d payments are executed again; want the %d that were not replicated",
					len(l.executed), loadPayments/2)
			}
			l.wantOnce(inTransaction)
		})
	}
}
