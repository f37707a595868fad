package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/test/tally"
)

// The tests of a process that handles several invocations at once deliver managedBatches batches of payments
// twice, by managedInvocations at a time.
const managedBatches, managedInvocations = 12, 6

// startManaged starts the function as Lambda Managed Instances do.
func startManaged(t *testing.T, db *dynamofake.Server, env map[string]string) *process {
	t.Helper()
	all := dynamoEnv(db)
	maps.Copy(all, map[string]string{
		asFunction: "yes", "GORACE": "halt_on_error=1", "GOCOVERDIR": t.TempDir(),
		"IDEMSK_LEDGER": "atomic", "IDEMSK_KEY": "json:$.paymentId", "IDEMSK_MAX_ATTEMPTS": "1000",
		"IDEMSK_LOG_LEVEL": "error", "IDEMSK_RETRY_DELAY": "0s",
	})
	maps.Copy(all, env)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProcess(t, program, all, func(c *runtimeapi.Config) {
		c.Concurrency, c.InitTimeout = managedInvocations, time.Minute
	})
}

// deliveries are the batches, each twice in a random order, so that the same batch and others are handled at
// the same time.
func deliveries(t *testing.T, random *rand.Rand) (events [][]byte, made map[string][]tally.Credit) {
	made = map[string][]tally.Credit{}
	for n := range managedBatches {
		event := paymentsEvent(t, random, 2*n, n, made)
		events = append(events, event, event)
	}
	random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	return events, made
}

// deliverAll invokes the function with each event until no record is reported. It returns the number of
// invocations that ended without a crash, and of those that crashed.
func (p *process) deliverAll(events [][]byte) (answered, crashed int) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, event := range events {
		all.Go(func() {
			for n := 0; ; n++ {
				_, err := p.Invoke(p.t.Context(), event)
				var failed *runtimeapi.FunctionError
				var crash *runtimeapi.CrashError
				mu.Lock()
				if errors.As(err, &crash) {
					crashed++
				} else {
					answered++
				}
				mu.Unlock()
				switch {
				case err == nil:
					return
				case n > 200, !errors.As(err, &failed) && !errors.As(err, &crash):
					p.t.Errorf("delivery %d: %v", n, err)
					return
				}
			}
		})
	}
	all.Wait()
	return answered, crashed
}

// A process that handles several invocations at once books each payment once. Each invocation has one whole
// line of metrics, and each payment is counted once.
func TestSeveralInvocationsAtOnce(t *testing.T) {
	t.Parallel()
	seed := tally.NewSeed(t)
	db, cfg := startDynamo(t, dynamofake.Config{})
	p := startManaged(t, db, map[string]string{"IDEMSK_LEASE": "30s"})
	events, made := deliveries(t, seed.Rand("payments"))
	answered, crashed := p.deliverAll(events)
	equal(t, "crashes", crashed, 0)
	equal(t, "processes", p.Starts(), 1)
	payments := managedBatches * crashBatch
	equal(t, "lines of metrics", len(p.metrics), answered)
	equal(t, "executed", int(p.sum("Executed")), payments)
	equal(t, "records of the lines", int(p.sum("BatchSize")), answered*crashBatch)
	bookings := 0
	for account, amount := range tally.Sums(made) {
		balance, booked := booked(t, cfg, account)
		equal(t, "balance of "+account, balance, fmt.Sprint(amount))
		var n int
		_, _ = fmt.Sscan(booked, &n) // else it stays 0
		bookings += n
	}
	equal(t, "bookings", bookings, payments)
}

// Balances are exact when processes die with all of their invocations.
func TestSeveralInvocationsAtOnceInProcessesThatAreKilled(t *testing.T) {
	seed := tally.NewSeed(t)
	random := seed.Rand("payments and kills")
	var killer killer
	db, cfg := startDynamo(t, dynamofake.Config{Fault: killer.request})
	p := startManaged(t, db, map[string]string{"IDEMSK_LEASE": "100ms"})
	killer.kill = func() bool {
		defer killer.arm(1+random.Int64N(4*crashRequests), time.Duration(random.Int64N(int64(2*time.Millisecond))))
		return p.Starts() < 8 && p.Kill()
	}
	events, made := deliveries(t, random)
	killer.arm(crashRequests, 0)
	_, crashed := p.deliverAll(events)
	t.Logf("%d invocations died in %d processes; %v payments were executed", crashed, p.Starts(),
		p.sum("Executed"))
	if p.Starts() < 2 || crashed < p.Starts()-1 {
		t.Errorf("%d invocations died in %d processes", crashed, p.Starts())
	}
	for account, amount := range tally.Sums(made) {
		balance, _ := booked(t, cfg, account)
		equal(t, "balance of "+account, balance, fmt.Sprint(amount))
	}
}
