//go:build rest

package pgstore_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/storetest"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

const (
	usualKills, longKills = 30, 200 // of workers; the second in make test-long
	paymentsOfAKill       = 50
	partitions            = 4
	batchSize             = batchOfWorker
	serverKills           = 3
	// the maximum of kills for one that interrupts an attempt; about two are.
	killsOfACut = 10
	crashLimit  = 3 * time.Minute // more than a busy machine needs
)

// run is a run of the crash test. Each partition is delivered in batches to its own worker process. If the
// process dies, the batch is redelivered to a new one.
type run struct {
	*testing.T
	server   *pgserver.Server
	table    string
	trace    string // an assignment of storetest.TraceProcesses
	seed     tally.Seed
	payments int

	settled atomic.Int64 // payments that workers reported as settled, duplicates included
	killed  atomic.Int64
	replays atomic.Int64
	due     []int64       // when settled passes one of these, a worker is killed
	crash   chan struct{} // a crash of the server is due
}

// worker is a worker process.
type worker struct {
	cmd    *exec.Cmd
	tasks  io.WriteCloser
	said   *bufio.Scanner
	killed bool
}

// start starts a worker. With bulk, it makes the payments of a call in one transaction.
func (r *run) start(bulk bool) *worker {
	cmd := exec.CommandContext(r.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+r.table, urlEnv+"="+r.server.URL(),
		bulkEnv+"="+strconv.FormatBool(bulk), r.trace)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		r.Error(err)
		return nil
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Error(err)
		return nil
	}
	if err := cmd.Start(); err != nil {
		r.Error(err)
		return nil
	}
	return &worker{cmd: cmd, tasks: in, said: bufio.NewScanner(out)}
}

func (w *worker) end() error { return errors.Join(w.tasks.Close(), w.cmd.Wait()) }

// deliver delivers a partition's payments to workers until all are settled.
func (r *run) deliver(from, to int, bulk bool) {
	w := r.start(bulk)
	for at := from; at < to && w != nil; {
		if r.batch(w, at, min(at+batchSize, to)) {
			at += batchSize
			continue
		}
		_ = w.end()
		w = r.start(bulk)
	}
	if w == nil {
		return
	}
	if err := w.end(); err != nil && !w.killed {
		r.Error(err)
	}
}

// batch reports whether the worker settled the whole batch before it died.
func (r *run) batch(w *worker, from, to int) bool {
	if _, err := fmt.Fprintln(w.tasks, from, to); err != nil {
		return false
	}
	for range to - from {
		if !w.said.Scan() {
			return false
		}
		if strings.HasSuffix(w.said.Text(), "Replayed") {
			r.replays.Add(1)
		}
		r.perhapsKill(w)
	}
	return true
}

func (r *run) perhapsKill(w *worker) {
	n := r.settled.Add(1)
	if all := int64(r.payments); n < all && n%(all/(serverKills+1)) == 0 {
		r.crash <- struct{}{}
	}
	k := r.killed.Load()
	if k >= int64(len(r.due)) || n < r.due[k] || !r.killed.CompareAndSwap(k, k+1) {
		return
	}
	// A worker that has just settled some payments is making the next ones a moment later.
	moment := time.NewTimer(time.Duration(
		r.seed.Rand(fmt.Sprint("kill ", k)).Int64N(int64(3 * time.Millisecond))))
	defer moment.Stop()
	<-moment.C
	w.killed = true
	if err := w.cmd.Process.Kill(); err != nil {
		r.Error(err)
	}
}

// crashServer crashes and restarts the server for each signal on r.crash.
func (r *run) crashServer() (times int) {
	for range r.crash {
		if err := errors.Join(r.server.Crash(), r.server.Restart(r.Context())); err != nil {
			r.Error(err)
		}
		times++
	}
	return times
}

// newRun returns a run that kills this number of workers.
func newRun(t *testing.T, kills int) (*run, *pgxpool.Pool) {
	t.Helper()
	r := &run{
		T: t, server: ownServer(t, nil), seed: tally.NewSeed(t), payments: kills * paymentsOfAKill,
		due:   make([]int64, kills),
		crash: make(chan struct{}, serverKills),
	}
	pool := newPool(t, r.server.URL())
	r.table = newTable(t, pool)
	r.trace = storetest.TraceProcesses(t, newStore(t, pool, pgstore.Config{Table: r.table}).MaxClockSkew())
	execute(t, pool, `CREATE TABLE `+r.table+
		`_accounts AS SELECT n AS id, 0::bigint AS balance FROM generate_series(0, $1) n`, accounts-1)
	execute(t, pool, `ALTER TABLE `+r.table+`_accounts ADD PRIMARY KEY (id)`)
	execute(t, pool, `CREATE TABLE `+r.table+`_dead (failure text)`)
	random := r.seed.Rand("when to kill")
	for i := range r.due {
		step := int64(r.payments / (kills + 1))
		r.due[i] = int64(i)*step + random.Int64N(step) + 1
	}
	return r, pool
}

// TestBalancesAreExactAfterProcessCrashes makes payments in transactions of one payment, of groups and of
// calls, while worker processes are killed at random moments and the server crashes three times. Every balance is
// exact afterwards.
func TestBalancesAreExactAfterProcessCrashes(t *testing.T) {
	kills := testkit.Size(t, usualKills, longKills)
	r, pool := newRun(t, kills)
	began := time.Now()
	crashed := make(chan int)
	go func() { crashed <- r.crashServer() }()
	var wg sync.WaitGroup
	for p := range partitions {
		wg.Go(func() { r.deliver(p*r.payments/partitions, (p+1)*r.payments/partitions, p%2 == 0) })
	}
	wg.Wait()
	close(r.crash)
	took := time.Since(began)

	if n := <-crashed; n != serverKills || r.killed.Load() != int64(kills) {
		t.Errorf("the server was crashed %d times, workers killed %d times; want %d and %d", n,
			r.killed.Load(), serverKills, kills)
	}
	want := make([]int64, accounts)
	for n := range r.payments {
		want[n%accounts] += amount(n)
	}
	for id := range want {
		if got := ask[int64](t, pool, `SELECT balance FROM `+r.table+`_accounts WHERE id = $1`,
			id); got != want[id] {
			t.Errorf("account %d: balance %d; want %d", id, got, want[id])
		}
	}
	if n := ask[int](t, pool, `SELECT count(*) FROM `+r.table+
		` WHERE status = 'COMPLETED'`); n != r.payments {
		t.Errorf("%d keys completed; want %d", n, r.payments)
	}
	again := ask[int](t, pool, `SELECT count(*) FROM `+r.table+` WHERE attempts > 1`)
	if again < kills/killsOfACut {
		t.Errorf("%d attempts were interrupted, want %d at least", again, kills/killsOfACut)
	}
	if took > crashLimit {
		t.Errorf("it took %v; want less than %v", took, crashLimit)
	}
	t.Logf("%d payments in %v: %d workers killed, the server crashed %d times, %d payments begun more than once, %d replayed",
		r.payments, took.Round(time.Millisecond), r.killed.Load(), serverKills, again, r.replays.Load())
}

// TestPaymentThatKillsItsProcessExhaustsItsAttempts delivers a message that always kills the process. Each
// claim counts an attempt, so the redeliveries end.
func TestPaymentThatKillsItsProcessExhaustsItsAttempts(t *testing.T) {
	r, pool := newRun(t, 0)
	deaths := 0
	for {
		w := r.start(deaths%2 == 0)
		if w == nil {
			return
		}
		lived := r.batch(w, killer, killer+1)
		err := w.end()
		if lived {
			if err != nil {
				t.Error(err)
			}
			break
		}
		if deaths++; deaths > maxAttempts {
			t.Fatal("the attempts are not exhausted")
		}
	}
	if deaths != maxAttempts {
		t.Errorf("it killed %d processes; want %d", deaths, maxAttempts)
	}
	if f := ask[string](t, pool, `SELECT string_agg(failure, '; ') FROM `+r.table+
		`_dead`); !strings.HasPrefix(f, "exhausted: ") {
		t.Errorf("dead letters: %q; want one, of exhausted attempts", f)
	}
	if n := ask[int64](t, pool, `SELECT sum(balance)::bigint FROM `+r.table+`_accounts`); n != 0 {
		t.Errorf("balances of %d; want 0", n)
	}
}
