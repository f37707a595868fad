package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/runtimeapi"
)

// What the crash test plays: crashBatches of crashBatch payments each, and crashKills deliveries of each are killed.
const (
	crashBatches  = 100
	crashBatch    = 100
	crashKills    = 2
	crashAccounts = 50
)

// In atomic mode payments are booked to the cent, at whatever moment the process is killed.
func TestBookingsAreExactWhenProcessesAreKilled(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bootstrap")
	if out, err := exec.Command("go", "build", "-tags", "lambda.norpc", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, env := range map[string]map[string]string{
		"claims first":                      {"IDEMSK_CLAIM": "first"},
		"claims on commit":                  {"IDEMSK_CLAIM": "commit"},
		"claims first, with the outbox":     {"IDEMSK_CLAIM": "first", "IDEMSK_OUTBOX": "on"},
		"claims on commit, with the outbox": {"IDEMSK_CLAIM": "commit", "IDEMSK_OUTBOX": "on"},
	} {
		t.Run(name, func(t *testing.T) { killAtRandom(t, program, env) })
	}
}

func killAtRandom(t *testing.T, program string, env map[string]string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	db, cfg := startDynamo(t, dynamofake.Config{})
	all := dynamoEnv(db)
	maps.Copy(all, map[string]string{
		"IDEMSK_LEDGER": "atomic", "IDEMSK_KEY": "json:$.paymentId", "IDEMSK_MAX_ATTEMPTS": "1000", "IDEMSK_LEASE": "100ms", "IDEMSK_LOG_LEVEL": "error",
	})
	maps.Copy(all, env)
	if env["IDEMSK_OUTBOX"] == "on" {
		createOutbox(t, db)
	}
	p := startProcess(t, program, all)
	want, took := map[string]int64{}, 50*time.Millisecond
	payments := map[string]Payment{}
	killed := 0
	for n := range crashBatches {
		event := paymentsEvent(t, random, n, want, payments)
		for kills := 0; kills < crashKills; {
			if p.invokeAndKill(event, time.Duration(random.Int64N(int64(took)))) {
				kills++
				killed++
			}
		}
		begun := time.Now()
		p.deliver(event)
		took = (3*took + time.Since(begun)) / 4
	}
	t.Logf("%d processes were killed at work; a batch took some %v", killed, took)
	for account, amount := range want {
		if balance, _ := booked(t, cfg, account); balance != fmt.Sprint(amount) {
			t.Errorf("account %s has %s; want %d", account, balance, amount)
		}
	}
	equal(t, "open transactions of payments", p.sum("CompletionFailed"), 0)
	if env["IDEMSK_OUTBOX"] == "on" {
		wantCredited(t, cfg, payments)
	}
}

// invokeAndKill invokes the function and kills its process after a while, and reports whether it was at work then.
func (p *process) invokeAndKill(event []byte, after time.Duration) bool {
	p.t.Helper()
	kill := time.AfterFunc(after, func() { p.Kill() })
	defer kill.Stop()
	_, err := p.Invoke(p.t.Context(), event)
	var crash *runtimeapi.CrashError
	return errors.As(err, &crash)
}

// deliver invokes the function until it is content.
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

// paymentsEvent is a batch over two partitions, whose payments are added to what the accounts must have, and to all payments.
func paymentsEvent(t *testing.T, random *rand.Rand, n int, want map[string]int64, payments map[string]Payment) []byte {
	t.Helper()
	records := map[string][]map[string]any{}
	for i := range crashBatch {
		account, amount, partition := fmt.Sprint("acc-", random.IntN(crashAccounts)), random.Int64N(1000)+1, i%2
		want[account+"/EUR"] += amount
		payment := Payment{PaymentID: fmt.Sprintf("p-%d-%d", n, i), Account: account, Amount: amount, Currency: "EUR"}
		payments[payment.PaymentID] = payment
		value, err := json.Marshal(payment)
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint("payments-", partition)
		records[id] = append(records[id], map[string]any{
			"topic": "payments", "partition": partition, "offset": n*crashBatch + i, "timestamp": 1, "timestampType": "CREATE_TIME",
			"value": base64.StdEncoding.EncodeToString(value), "headers": []any{},
		})
	}
	event, err := json.Marshal(map[string]any{"eventSource": "aws:kafka", "records": records})
	if err != nil {
		t.Fatal(err)
	}
	return event
}
