//go:build servers

package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

// patience is how long a test waits for an action of the server.
const patience = time.Minute

// halfway is a proxy that breaks the connection in the middle of a batch. It can then connect to another
// server, as a failover of a DNS name does.
type halfway struct {
	mu    sync.Mutex
	addr  string
	fault func()
}

func (h *halfway) option(o *redis.UniversalOptions) {
	o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		h.mu.Lock()
		addr := h.addr
		h.mu.Unlock()
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &halfwayConn{Conn: conn, way: h}, nil
	}
}

func (h *halfway) to(addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addr = addr
}

// onBatch injects a fault after half of the next batch.
func (h *halfway) onBatch(fault func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fault = fault
}

func (h *halfway) take() (fault func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fault, h.fault = h.fault, nil
	return fault
}

type halfwayConn struct {
	net.Conn
	way *halfway
}

func (c *halfwayConn) Write(p []byte) (int, error) {
	if bytes.Count(p, []byte("\r\nevalsha\r\n")) < 2 {
		return c.Conn.Write(p)
	}
	fault := c.way.take()
	if fault == nil {
		return c.Conn.Write(p)
	}
	n, err := c.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	fault()
	return n, net.ErrClosed
}

func hundred() (reqs []store.ClaimRequest) {
	for i := range redisstore.MaxBatchSize {
		reqs = append(reqs, request(fmt.Sprint("key ", i), i))
	}
	return reqs
}

// untilSome waits until some, but not all, of the hundred keys have an entry of this kind at the server.
func untilSome(t *testing.T, srv *redisserver.Server, kind byte) {
	t.Helper()
	const count = `local n = 0
for _, k in ipairs(redis.call('KEYS', '*{key *')) do if redis.call('GET', k):byte() == tonumber(ARGV[1]) then n = n + 1 end end
return n`
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		if n := do(t, srv, "EVAL", count, "0", kind).(int64); n > 0 {
			if n >= redisstore.MaxBatchSize {
				t.Errorf("all %d have it: the batch is complete", n)
			}
			return
		}
	}
	t.Errorf("no key has an entry of kind %#x", kind)
}

// teach loads the scripts, so that the next batch is executed at its first attempt.
func teach(t *testing.T, st *redisstore.Store) {
	t.Helper()
	if err := settle(t, st, settlement(mustClaim(t, st, request(unique("lesson "), 1)),
		store.OpComplete)); err != nil {
		t.Fatal(err)
	}
}

// wantHundred runs a batch of claims and a batch of completions, each with a fault in the middle, and checks
// that each key is claimed and completed and charged once.
func wantHundred(t *testing.T, st *redisstore.Store, way *halfway, fault func(kind byte)) {
	t.Helper()
	teach(t, st)
	way.onBatch(func() { fault(redisstore.KindStarted) })
	var ss []store.Settlement
	for i, res := range st.Claim(t.Context(), hundred()) {
		if res.State != store.Claimed || res.Entry.Attempts != 1 {
			t.Fatalf("%d: state %d, error %v, %+v", i, res.State, res.Err, res.Entry)
		}
		ss = append(ss, settlement(res.Entry, store.OpComplete))
	}
	teach(t, st)
	way.onBatch(func() { fault(redisstore.KindCompleted) })
	if errs := st.Settle(t.Context(), ss); errs != nil {
		t.Fatal(errs)
	}
	if way.take() != nil {
		t.Error("no fault was injected")
	}
	for i, res := range st.Claim(t.Context(), hundred()) {
		if res.State != store.ClaimCompleted {
			t.Fatalf("%d: state %d, error %v", i, res.State, res.Err)
		}
	}
}

func TestBatchSurvivesABrokenConnection(t *testing.T) {
	srv := ownServer(t, nil)
	way := &halfway{addr: srv.Addr()}
	st := newStore(t, newClient(t, srv.URL(), way.option), redisstore.Config{})
	wantHundred(t, st, way, func(kind byte) { untilSome(t, srv, kind) })
}

func TestKilledServerKeepsAllAnsweredWrites(t *testing.T) {
	srv := ownServer(t, map[string]string{"appendonly": "yes", "appendfsync": "always"})
	way := &halfway{addr: srv.Addr()}
	st := newStore(t, newClient(t, srv.URL(), way.option), redisstore.Config{})
	wantHundred(t, st, way, func(kind byte) {
		untilSome(t, srv, kind)
		if err := srv.Crash(); err != nil {
			t.Error(err)
		}
		if err := srv.Restart(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestFailoverKeepsReplicatedWrites(t *testing.T) {
	primary := ownServer(t, nil)
	replica, err := primary.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, replica)
	way := &halfway{addr: primary.Addr()}
	st := newStore(t, newClient(t, primary.URL(), way.option), redisstore.Config{})
	failover := func(kind byte) {
		untilSome(t, replica, kind)
		if err := primary.Crash(); err != nil {
			t.Error(err)
		}
		if err := replica.Promote(t.Context()); err != nil {
			t.Error(err)
		}
		way.to(replica.Addr())
		if err := primary.Restart(t.Context()); err != nil {
			// as a replica of the new primary, for the failover back
			t.Error(err)
		}
		if _, err := primary.Do(t.Context(), "REPLICAOF", "127.0.0.1", replica.Port()); err != nil {
			t.Error(err)
		}
		if err := primary.InStep(t.Context()); err != nil {
			t.Error(err)
		}
		primary, replica = replica, primary
	}
	wantHundred(t, st, way, failover)
}

func TestClientLeavesADemotedPrimary(t *testing.T) {
	primary := ownServer(t, nil)
	replica, err := primary.Replica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, replica)
	way := &halfway{addr: primary.Addr()}
	st := newStore(t, newClient(t, primary.URL(), way.option), redisstore.Config{})
	entry := mustClaim(t, st, request("a", 1))
	if got := do(t, primary, "WAIT", 1, 0); got != int64(1) { // the replica has it
		t.Fatal(got)
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	do(t, primary, "REPLICAOF", "127.0.0.1", replica.Port())
	way.to(replica.Addr())
	if err := settle(t, st, settlement(entry, store.OpComplete)); err != nil {
		t.Errorf("%v; want the client to go to where the name leads now", err)
	}
}

// The next two tests document the guarantees that Redis does not give. The documentation refers to them.

func TestCrashWithoutAOFLosesKeys(t *testing.T) {
	srv := ownServer(t, nil)
	st := newStore(t, newClient(t, srv.URL()), redisstore.Config{})
	held := mustClaim(t, st, request("held", 1))
	if err := settle(t, st, settlement(mustClaim(t, st, request("done", 1)), store.OpComplete)); err != nil {
		t.Fatal(err)
	}
	if err := srv.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := srv.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := settle(t, st, settlement(held, store.OpComplete))
	wantError(t, err, "no longer held", "the entry is gone")
	next := mustClaim(t, st, request("held", 2))
	if next.Token <= held.Token {
		t.Errorf("token %d after %d; want a larger fencing token even so", next.Token, held.Token)
	}
	mustClaim(t, st, request("done", 2)) // runs again
}

func TestFailoverLosesUnreplicatedWrites(t *testing.T) {
	f := cutOff(t)
	if err := settle(t, f.store, settlement(f.held, store.OpComplete)); err != nil {
		t.Fatal(err)
	}
	f.failOver(t)
	got, err := f.store.Get(t.Context(), f.held.Key)
	if err != nil || got.Status != store.StatusStarted || got.Owner != f.held.Owner {
		t.Fatalf("%v: %+v; want the claim alone: its key runs again when the lease is over", err, got)
	}
}

func TestMinReplicasStopAnIsolatedPrimary(t *testing.T) {
	f := cutOff(t)
	do(t, f.primary, "CONFIG", "SET", "min-replicas-to-write", "1")
	set := settlement(f.held, store.OpComplete)
	wantError(t, settle(t, f.store, set), "NOREPLICAS", "repair the replicas")
	f.failOver(t)
	if err := settle(t, f.store, set); err != nil {
		t.Errorf("%v; want the completion that was refused to be taken by the new primary", err)
	}
	if res := claim(t, f.store, request(f.held.Key, 9)); res.State != store.ClaimCompleted {
		t.Errorf("state %d, error %v", res.State, res.Err)
	}
}

// cutOffPrimary is a primary whose replica was promoted while the store is still connected to the primary.
type cutOffPrimary struct {
	primary, replica *redisserver.Server
	way              *halfway
	store            *redisstore.Store
	held             store.Entry // also on the replica
}

func cutOff(t *testing.T) *cutOffPrimary {
	t.Helper()
	f := &cutOffPrimary{primary: ownServer(t, nil)}
	var err error
	if f.replica, err = f.primary.Replica(t.Context()); err != nil {
		t.Fatal(err)
	}
	testkit.CloseAtEnd(t, f.replica)
	f.way = &halfway{addr: f.primary.Addr()}
	f.store = newStore(t, newClient(t, f.primary.URL(), f.way.option), redisstore.Config{})
	f.held = mustClaim(t, f.store, request("a", 1))
	if got := do(t, f.primary, "WAIT", 1, 0); got != int64(1) {
		t.Fatal(got)
	}
	if err := f.replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); !strings.Contains(do(t, f.primary, "INFO", "replication").(string),
		"connected_slaves:0"); {
		if time.Now().After(limit) {
			t.Fatal("the primary still has its replica")
		}
	}
	return f
}

// failOver connects the store to the new primary.
func (f *cutOffPrimary) failOver(t *testing.T) {
	t.Helper()
	if err := f.primary.Crash(); err != nil {
		t.Fatal(err)
	}
	f.way.to(f.replica.Addr())
}
