package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// The crash test delivers crashBatches of crashBatch payments each (longCrashBatches in make test-long), and
// kills crashKills deliveries of each at one of the first crashRequests requests.
const (
	crashBatches, longCrashBatches = 15, 100

	crashBatch    = 100
	crashKills    = 2
	crashRequests = 40
	crashAccounts = 50
)

// In atomic mode balances are exact, whenever the process is killed.
func TestBookingsAreExactWhenProcessesAreKilled(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"without the outbox": {}, "with the outbox": {"IDEMSK_OUTBOX": "on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for leases most of the time
			killAtRandom(t, env)
		})
	}
}

func killAtRandom(t *testing.T, env map[string]string) {
	t.Helper()
	seed := tally.NewSeed(t)
	random := seed.Rand("payments and kills")
	var killer killer
	db, cfg := startDynamo(t, dynamofake.Config{Fault: killer.request})
	all := dynamoEnv(db)
	maps.Copy(all, map[string]string{
		"IDEMSK_LEDGER": "atomic", "IDEMSK_KEY": "json:$.paymentId", "IDEMSK_MAX_ATTEMPTS": "1000",
		"IDEMSK_LEASE": "100ms", "IDEMSK_LOG_LEVEL": "error",
	})
	maps.Copy(all, env)
	if env["IDEMSK_OUTBOX"] == "on" {
		createOutbox(t, db)
	}
	p := startProcess(t, program, all)
	killer.kill = p.Kill
	made := map[string][]tally.Credit{}
	killed, missed := 0, 0
	for n := range testkit.Size(t, crashBatches, longCrashBatches) {
		event := paymentsEvent(t, random, 0, n, made)
		requests := int64(crashRequests)
		for kills := 0; kills < crashKills; {
			killer.arm(1+random.Int64N(requests), time.Duration(random.Int64N(int64(2*time.Millisecond))))
			if p.dies(event) {
				kills++
				killed++
			} else {
				missed++
				requests = max(1, requests/2) // fewer were left
			}
		}
		killer.arm(0, 0)
		p.deliver(event)
	}
	t.Logf("%d processes were killed at work, %d batches ended before the kill; %v payments were executed",
		killed, missed, p.sum("Executed"))
	want := tally.Sums(made)
	for account, amount := range want {
		if balance, _ := booked(t, cfg, account); balance != fmt.Sprint(amount) {
			t.Errorf("account %s has %s; want %d", account, balance, amount)
		}
	}
	equal(t, "open transactions of payments", p.sum("CompletionFailed"), 0)
	if env["IDEMSK_OUTBOX"] == "on" {
		wantCredited(t, cfg, made)
	}
}

// killer kills the function's process a while after one of its requests to DynamoDB began. The request may be
// lost, or only its reply.
type killer struct {
	kill func() bool

	mu    sync.Mutex
	left  int64 // the number of requests until the kill; none if it is not positive
	delay time.Duration
	due   *time.Timer
}

// arm has the nth request from now on kill the process; with n = 0 none does.
func (k *killer) arm(n int64, delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.due != nil {
		k.due.Stop()
	}
	k.left, k.delay = n, delay
}

// request is the Fault of an in-process DynamoDB.
func (k *killer) request(string, []byte) dynamofake.Fault {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left--; k.left == 0 {
		k.due = time.AfterFunc(k.delay, func() { k.kill() })
	}
	return dynamofake.Fault{}
}

// dies invokes the function and reports whether its process died while it was handling the event.
func (p *process) dies(event []byte) bool {
	p.t.Helper()
	_, err := p.Invoke(p.t.Context(), event)
	var crash *runtimeapi.CrashError
	return errors.As(err, &crash)
}

// deliver invokes the function until no record is reported.
func (p *process) deliver(event []byte) {
	p.t.Helper()
	for n := 0; ; n++ {
		_, err := p.Invoke(p.t.Context(), event)
		var failed *runtimeapi.FunctionError
		var unstarted *runtimeapi.StartError // a late kill
		switch {
		case err == nil:
			return
		case n > 100, !errors.As(err, &failed) && !errors.As(err, &unstarted):
			p.t.Fatalf("delivery %d: %v", n, err)
		}
	}
}

// paymentsEvent is a batch over two partitions from the first on, whose payments are added to those of each
// account.
func paymentsEvent(t *testing.T, random *rand.Rand, first, n int, made map[string][]tally.Credit) []byte {
	t.Helper()
	partitions := map[int][]Payment{}
	for i := range crashBatch {
		p := Payment{PaymentID: fmt.Sprintf("p-%d-%d", n, i),
			Account: fmt.Sprint("acc-", random.IntN(crashAccounts)), Amount: random.Int64N(1000) + 1,
			Currency: "EUR"}
		made[p.Account] = append(made[p.Account],
			tally.Credit{PaymentID: p.PaymentID, Account: p.Account, Amount: p.Amount, Currency: p.Currency})
		partitions[first+i%2] = append(partitions[first+i%2], p)
	}
	return kafkaEvent(t, n*crashBatch, partitions)
}
