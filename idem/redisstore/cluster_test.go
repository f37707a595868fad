//go:build servers

package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/test/redisserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
)

func ownCluster(t *testing.T) *redisserver.Cluster {
	t.Helper()
	return testkit.Run(t, redisserver.StartCluster, redisserver.Config{})
}

func TestBatchUsesEveryNodeOfACluster(t *testing.T) {
	c := ownCluster(t)
	var w wire
	st := newStore(t, newClient(t, c.URL(), w.option, unhurried), redisstore.Config{})
	fresh := func(n int) {
		var ss []store.Settlement
		var reqs []store.ClaimRequest
		for i := range redisstore.MaxBatchSize {
			reqs = append(reqs, request(fmt.Sprint("key ", n, " ", i), i))
		}
		for _, res := range st.Claim(t.Context(), reqs) {
			if res.State != store.Claimed {
				t.Fatal(res.Err)
			}
			ss = append(ss, settlement(res.Entry, store.OpComplete))
		}
		if errs := st.Settle(t.Context(), ss); errs != nil {
			t.Fatal(errs)
		}
	}
	if got := w.count(fresh); got > 6 {
		t.Errorf("%d round trips for 100 fresh records; want 2 for each of 3 nodes at most", got)
	}
	for i, node := range c.Nodes {
		if n := do(t, node, "DBSIZE").(int64); n < 20 {
			t.Errorf("node %d has %d of 200 keys", i, n)
		}
	}
}

func TestKeysAreFoundWhileTheirSlotMoves(t *testing.T) {
	c := ownCluster(t)
	st := newStore(t, newClient(t, c.URL()), redisstore.Config{})
	entry := mustClaim(t, st, request("a", 1))
	slot := do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", st.Name("a")).(int64)
	from := c.Nodes[slot*3/16384]
	to := c.Nodes[(slot*3/16384+1)%3]
	fromID, toID := do(t, from, "CLUSTER", "MYID"), do(t, to, "CLUSTER", "MYID")
	do(t, to, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID)
	do(t, from, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID)
	if res := claim(t, st, request("a", 2)); res.State != store.ClaimInFlight {
		t.Errorf("before its key moves: state %d, error %v", res.State, res.Err)
	}
	if got := do(t, from, "MIGRATE", "127.0.0.1", to.Port(), st.Name("a"), 0, 5000, "AUTH",
		redisserver.Password); got != "OK" {
		t.Fatal(got)
	}
	if res := claim(t, st, request("a", 3)); res.State != store.ClaimInFlight {
		t.Errorf("between (ASK): state %d, error %v", res.State, res.Err)
	}
	if err := settle(t, st, settlement(entry, store.OpComplete)); err != nil {
		t.Error(err)
	}
	for _, node := range c.Nodes {
		do(t, node, "CLUSTER", "SETSLOT", slot, "NODE", toID)
	}
	if res := claim(t, st, request("a", 4)); res.State != store.ClaimCompleted {
		t.Errorf("after (MOVED): state %d, error %v", res.State, res.Err)
	}
	if ttl := do(t, to, "PEXPIRETIME", st.Name("a")).(int64); ttl <= 0 {
		t.Errorf("it is deleted at %d", ttl)
	}
}

func TestLostNodeFailsOnlyItsOwnKeys(t *testing.T) {
	c := ownCluster(t)
	st := newStore(t, newClient(t, c.URL()), redisstore.Config{})
	lost := c.Nodes[2]
	for _, res := range st.Claim(t.Context(), hundred()) {
		if res.State != store.Claimed {
			t.Fatal(res.Err)
		}
	}
	if err := lost.Crash(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i, res := range st.Claim(t.Context(), hundred()) {
		slot := do(t, c.Nodes[0], "CLUSTER", "KEYSLOT", st.Name(fmt.Sprint("key ", i))).(int64)
		there := slot*3/16384 == 2
		switch {
		case there && res.Err != nil:
			failed++
			wantError(t, res.Err, fmt.Sprintf("claim %q", fmt.Sprint("key ", i)))
			if !strings.Contains(res.Err.Error(), "check IDEMSK_STORE_URL") &&
				!strings.Contains(res.Err.Error(), "CLUSTER INFO") {
				t.Errorf("%v does not say what to do", res.Err)
			}
		case there:
			t.Errorf("%d: state %d of a node that is lost", i, res.State)
		case res.State != store.Claimed || res.Entry.Attempts != 1:
			t.Errorf("%d: state %d, error %v, of another node", i, res.State, res.Err)
		}
	}
	if failed == 0 {
		t.Error("no key was on the node that is lost")
	}
}

func TestACLInDocsIsSufficientForACluster(t *testing.T) {
	c := ownCluster(t)
	for _, node := range c.Nodes {
		do(t, node, append(acl("p"), "+cluster|slots", "+command")...)
		do(t, node, "CONFIG", "SET", "appendonly", "yes")
	}
	client := newClient(t, c.Nodes[0].URLOf("function", "secret")+"?cluster=true")
	if err := newStore(t, client, redisstore.Config{Prefix: "p"}).Check(t.Context()); err != nil {
		t.Error(err)
	}
}
