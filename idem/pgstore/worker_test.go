//go:build servers

package pgstore_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// The environment of a worker: the test binary, run again as a process that the test kills.
const (
	workerEnv = "IDEMSK_TEST_WORKER" // the table
	urlEnv    = "IDEMSK_TEST_URL"
	bulkEnv   = "IDEMSK_TEST_BULK" // whether it has a bulk handler
)

const (
	accounts      = 100
	maxAttempts   = 3       // of the payment that kills its process
	killer        = 1 << 20 // the number of the payment that kills the process of its handler
	workersPause  = 20 * time.Millisecond
	batchOfWorker = 25
	workersLease  = time.Second // after which the payments of a killed worker are retried
)

// amount is the amount that payment n adds to the balance of account n % accounts.
func amount(n int) int64 { return int64(n%97 + 1) }

// work reads lines "from to" from standard input, makes these payments until each is settled, and reports
// each on standard output.
func work() int {
	if err := payAll(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func payAll(ctx context.Context) error {
	table := os.Getenv(workerEnv)
	pool, err := pgstore.NewPool(os.Getenv(urlEnv))
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := pgstore.New(pool, pgstore.Config{Table: table})
	if err != nil {
		return err
	}
	traced, err := storetest.TracedProcess(st)
	if err != nil {
		return err
	}
	engine, err := idem.New(traced, idem.Config{MaxAttempts: maxAttempts, Lease: workersLease})
	if err != nil {
		return err
	}
	cfg := idem.SchedulerConfig{Concurrency: batchOfWorker, Backoff: workersPause}
	if os.Getenv(bulkEnv) == "true" {
		cfg.Bulk = payTogether(table)
	}
	scheduler, err := idem.NewScheduler(engine, cfg)
	if err != nil {
		return err
	}
	var unsettled sync.WaitGroup
	stream := scheduler.Stream(ctx, func(it *idem.Item) {
		fmt.Println(it.Task.Key, it.Outcome.Kind)
		unsettled.Done()
	}, nil)
	defer stream.Close(ctx)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var from, to int
		if _, err := fmt.Sscan(lines.Text(), &from, &to); err != nil {
			return err
		}
		for n := from; n < to; n++ {
			unsettled.Add(1)
			stream.Add(&idem.Item{Lane: strconv.Itoa(n), Task: payment(pool, table, n)})
		}
		unsettled.Wait()
	}
	return nil
}

// payTogether books the payments of a call with one statement in its transaction.
func payTogether(table string) idem.BulkHandler {
	return func(ctx context.Context, items []*idem.Item) ([]idem.BulkResult, error) {
		results := make([]idem.BulkResult, len(items))
		var ids, amounts []int
		for i, it := range items {
			var n int
			if _, err := fmt.Sscanf(it.Task.Key, "payment-%d", &n); err != nil {
				return nil, err
			}
			if n == killer {
				return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			ids, amounts = append(ids, n%accounts), append(amounts, int(amount(n)))
			results[i].Value = fmt.Append(nil, n)
		}
		tx, err := pgstore.TxFrom(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, `UPDATE `+table+`_accounts SET balance = balance + sum FROM (
				SELECT id AS of, sum(amount) FROM unnest($1::int[], $2::int[]) AS p (id, amount)
				GROUP BY id) b WHERE id = of`, ids, amounts)
		}
		return results, err
	}
}

// payment books in a transaction of its own, and every other one in that of a group.
func payment(pool *pgxpool.Pool, table string, n int) idem.Task {
	book := `UPDATE ` + table + `_accounts SET balance = balance + $2 WHERE id = $1`
	task := idem.Task{
		Key: fmt.Sprint("payment-", n), Fingerprint: store.FingerprintOf(fmt.Append(nil, amount(n))),
		Source: fmt.Sprint("payments-0@", n),
		Handler: txHandler(func(ctx context.Context, tx pgx.Tx) ([]byte, error) {
			_, err := tx.Exec(ctx, book, n%accounts, amount(n))
			if n == killer {
				return nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return fmt.Append(nil, n), err
		}),
	}
	if n%2 == 1 {
		task.Handler = idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
			return fmt.Append(nil, n), pgstore.EnlistRows(ctx, 1, nil, book, n%accounts, amount(n))
		})
	}
	if n == killer {
		task.DeadLetters = idem.DeadLetterFunc(func(ctx context.Context, b idem.DeadLetter) error {
			_, err := pool.Exec(ctx, `INSERT INTO `+table+`_dead VALUES ($1)`,
				b.Failure.Code+": "+b.Failure.Message)
			return err
		})
	}
	return task
}
