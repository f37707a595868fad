//go:build servers

package redisledger_test

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/internal/demo/redisledger"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) redis.UniversalClient {
	t.Helper()
	server := testkit.Run(t, redisserver.Start, redisserver.Config{})
	o := &redis.UniversalOptions{Addrs: []string{server.Addr()}, Password: redisserver.Password}
	redisledger.SendOnce(o)
	client := redis.NewUniversalClient(o)
	testkit.CloseAtEnd(t, client)
	return client
}

func TestLedgerAddsUp(t *testing.T) {
	client := open(t)
	const ledger = redisledger.Ledger("idemsk-ledger")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := ledger.Add(t.Context(), client, "a/EUR", 5); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if balance, err := ledger.Add(t.Context(), client, "a/EUR", -1); err != nil || balance != 99 {
		t.Errorf("the balance is %d (%v); want 99", balance, err)
	}
	if _, err := ledger.Add(t.Context(), client, "b/USD", 7); err != nil {
		t.Error(err)
	}
	if n, err := client.HGet(t.Context(), "idemsk-ledger:a/EUR", "bookings").Int(); err != nil || n != 21 {
		t.Errorf("%d bookings (%v); want 21", n, err)
	}
	if err := client.HSet(t.Context(), "elsewhere:{k}", "balance", 1).Err(); err != nil {
		t.Fatal(err)
	}
	balances, err := ledger.Balances(t.Context(), client)
	if err != nil || len(balances) != 2 || balances["a/EUR"] != 99 || balances["b/USD"] != 7 {
		t.Errorf("balances %v (%v)", balances, err)
	}
	if err := ledger.Drop(t.Context(), client); err != nil {
		t.Error(err)
	}
	if n, err := client.DBSize(t.Context()).Result(); err != nil || n != 1 {
		t.Errorf("after Drop there are %d keys (%v); want what is not the ledger's", n, err)
	}
}

// A booking that would overflow changes nothing. Balances are exact beyond the precision of Lua's numbers.
func TestRefusedBookings(t *testing.T) {
	client := open(t)
	const ledger = redisledger.Ledger("l")
	for account, balance := range map[string]int64{"full/EUR": math.MaxInt64, "empty/EUR": math.MinInt64} {
		if got, err := ledger.Add(t.Context(), client, account, balance); err != nil || got != balance {
			t.Fatalf("the balance of %s is %d (%v); want %d", account, got, err, balance)
		}
	}
	for account, amount := range map[string]int64{"full/EUR": 1, "empty/EUR": -1} {
		if _, err := ledger.Add(t.Context(), client, account, amount); !errors.Is(err,
			redisledger.ErrRefused) {
			t.Errorf("%s and %d: %v; want ErrRefused", account, amount, err)
		}
		if n, err := client.HGet(t.Context(), "l:"+account, "bookings").Int(); err != nil || n != 1 {
			t.Errorf("%s has %d bookings (%v); want 1", account, n, err)
		}
	}
	balances, err := ledger.Balances(t.Context(), client)
	if err != nil || len(balances) != 2 || balances["full/EUR"] != math.MaxInt64 ||
		balances["empty/EUR"] != math.MinInt64 {
		t.Errorf("balances %v (%v); want those of before", balances, err)
	}
}

func TestLedgerOnACluster(t *testing.T) {
	cluster := testkit.Run(t, redisserver.StartCluster, redisserver.Config{})
	o := &redis.UniversalOptions{Password: redisserver.Password}
	for _, node := range cluster.Nodes {
		o.Addrs = append(o.Addrs, node.Addr())
	}
	redisledger.SendOnce(o)
	client := redis.NewUniversalClient(o)
	testkit.CloseAtEnd(t, client)
	for i := range 20 {
		for n := range int64(2) {
			if balance, err := redisledger.Ledger("l").Add(t.Context(), client, fmt.Sprint("a-", i, "/EUR"),
				5); err != nil || balance != 5*(n+1) {
				t.Errorf("the balance of account %d is %d (%v); want %d", i, balance, err, 5*(n+1))
			}
		}
	}
	if _, err := redisledger.Ledger("l").Add(t.Context(), client, "a-0/EUR", math.MaxInt64); !errors.Is(err,
		redisledger.ErrRefused) {
		t.Errorf("a balance that overflows: %v; want ErrRefused", err)
	}
}

func TestErrorsForKeysThatAreNoAccounts(t *testing.T) {
	client := open(t)
	if err := client.HSet(t.Context(), "l:a/EUR", "balance", "much").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := redisledger.Ledger("l").Balances(t.Context(), client)
	if err == nil || !strings.Contains(err.Error(), "l:a/EUR") {
		t.Errorf("error %v; want one that names the key", err)
	}
	if _, err := redisledger.Ledger("l").Add(t.Context(), client, "a/EUR", 1); err == nil ||
		errors.Is(err, redisledger.ErrRefused) {
		t.Errorf("booking on what is no number: %v; want an error that is not the booking's", err)
	}
}

// An addition whose reply was lost may have been applied, so the client must not retry it.
func TestAdditionIsSentOnce(t *testing.T) {
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{}, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			if additions(conn) {
				sent <- struct{}{}
			}
			_ = conn.Close() // without an answer
		}
	}()
	o := &redis.UniversalOptions{Addrs: []string{server.Addr().String()}, Protocol: 2, DisableIdentity: true}
	redisledger.SendOnce(o)
	client := redis.NewUniversalClient(o)
	if _, err := redisledger.Ledger("l").Add(t.Context(), client, "a/EUR", 1); err == nil {
		t.Error("it books without a server")
	}
	_ = client.Close()
	_ = server.Close()
	<-done
	if len(sent) != 1 {
		t.Errorf("%d requests; want 1", len(sent))
	}
}

// additions answers a client's handshake until the client adds something, and reports whether it did.
func additions(conn net.Conn) bool {
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil || strings.Contains(string(buf[:n]), "hincrby") {
			return err == nil
		}
		if _, err := conn.Write([]byte("-ERR unknown command\r\n")); err != nil {
			return false
		}
	}
}
