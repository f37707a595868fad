//go:build servers

package redisstore_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// stillStore returns a store whose clock is fixed at storetest.NewClock's time.
func stillStore(t *testing.T, cfg redisstore.Config) *redisstore.Store {
	t.Helper()
	st := newStore(t, newClient(t, server.URL()), cfg)
	st.SetClock(fmt.Sprint(storetest.NewClock().Now().UnixMilli()))
	return st
}

// TestStoredFormatIsUnchanged compares stored values with golden values.
func TestStoredFormatIsUnchanged(t *testing.T) {
	client := newClient(t, server.URL())
	st := stillStore(t, redisstore.Config{})
	req := request("payments#a", 1)
	req.Fingerprint = store.Fingerprint{1, 0xFF}
	who := "07" + hex.EncodeToString([]byte("owner-1")) + "01ff" + strings.Repeat("00", 30) +
		"000d" + hex.EncodeToString([]byte("payments-3@17"))
	ms := func(n int64) string { return fmt.Sprintf("%012x", n) }
	seconds := func(n int64) string { return fmt.Sprintf("%010x", n) }
	now := ms(4000000000123)
	failure := now + "05" + hex.EncodeToString([]byte("error")) + "0004" + hex.EncodeToString([]byte("boom"))
	for op, want := range map[store.SettleOp]string{
		store.OpExtend:  "c1" + "01" + now + seconds(4000003661) + now + "0001" + ms(4000000060123) + who,
		store.OpRelease: "c2" + "05" + now + seconds(4000003608) + now + "0001" + ms(4000000007123) + who + failure,
		store.OpFail:    "c4" + "05" + now + seconds(4000003601) + now + "0001" + who + failure,
		store.OpComplete: "c3" + "09" + now + seconds(4000003601) + now + "0001" + who + "ffffffff" +
			hex.EncodeToString([]byte("paid\x00")),
	} {
		req.Key = op.String()
		set := settlement(mustClaim(t, st, req), op)
		set.Delay, set.Result, set.ResultOmitted = 7*time.Second, []byte("paid\x00"), store.ResultUnencodable
		if err := settle(t, st, set); err != nil {
			t.Fatal(err)
		}
		name := st.Prefix() + ":{" + req.Key + "}"
		if got := hex.EncodeToString([]byte(client.Get(t.Context(), name).Val())); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", op, got, want)
		}
		wantDeletion(t, client, st, req.Key)
	}
	req.Key = "claim"
	mustClaim(t, st, req)
	wantDeletion(t, client, st, req.Key)
}

// wantDeletion checks that the server deletes a key at its expiry and the skew.
func wantDeletion(t *testing.T, client redis.UniversalClient, st *redisstore.Store, key string) {
	t.Helper()
	entry, err := st.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	want := time.Duration(entry.Expiry.Add(st.MaxClockSkew()).UnixMilli()) * time.Millisecond
	if got := client.PExpireTime(t.Context(), st.Name(key)).Val(); got != want {
		t.Errorf("%s: deleted at %v; want %v, the expiry and the skew", key, got, want)
	}
}

func TestServerDeletesExpiredKeysAndTheFencingTokenGrows(t *testing.T) {
	srv := ownServer(t, nil)
	st := newStore(t, newClient(t, srv.URL()), redisstore.Config{MaxClockSkew: -1})
	req := request("a", 1)
	req.Lease, req.Retention = time.Millisecond, time.Millisecond
	entry := mustClaim(t, st, req)
	set := settlement(entry, store.OpComplete)
	set.Retention = time.Millisecond
	if err := settle(t, st, set); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for do(t, srv, "EXISTS", st.Name("a")) != int64(0) {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("it is still there")
		}
	}
	next := mustClaim(t, st, request("a", 2))
	if next.Token <= entry.Token || next.Attempts != 1 {
		t.Errorf("token %d, %d attempts after token %d; want more, and 1", next.Token, next.Attempts,
			entry.Token)
	}
}

func TestForeignDataUnderTheName(t *testing.T) {
	client := newClient(t, server.URL())
	st := newStore(t, client, redisstore.Config{})
	client.Set(t.Context(), st.Name("string"), "x", 0)
	client.Set(t.Context(), st.Name("text"), strings.Repeat("another program's value ", 10), 0)
	client.HSet(t.Context(), st.Name("hash"), "status", "STARTED", "version", "1") // as early versions of idemsk wrote
	mustClaim(t, st, request("broken", 1))
	whole := client.Get(t.Context(), st.Name("broken")).Val()
	client.Set(t.Context(), st.Name("broken"), whole[:len(whole)-20], 0)
	for key, texts := range map[string][]string{
		"hash":   {`claim "hash"`, "WRONGTYPE", "give the store a Prefix"},
		"string": {`claim "string"`, "not written by this version of idemsk", "give the store a Prefix"},
		"text":   {`claim "text"`, "not written by this version of idemsk", "give the store a Prefix"},
	} {
		wantError(t, claim(t, st, request(key, 1)).Err, texts...)
	}
	looking, taking := request("broken", 1), request("broken", 1)
	looking.TakeOver, taking.TakeOver = false, true
	for _, req := range []store.ClaimRequest{request("string", 1), request("text", 1), request("hash", 1), looking, taking} {
		if err := claim(t, st, req).Err; !errors.Is(err, store.ErrForeignEntry) {
			t.Errorf("%s: error %v; want ErrForeignRecord", req.Key, err)
		}
	}
	_, err := st.Get(t.Context(), "broken")
	wantError(t, err, "broken", "another form")
	_, err = st.Get(t.Context(), "hash")
	wantError(t, err, "WRONGTYPE")
	for key, text := range map[string]string{"hash": "WRONGTYPE", "text": "not written by this version of idemsk"} {
		err = settle(t, st, settlement(store.Entry{Key: key, Token: 1, Owner: "o"}, store.OpComplete))
		wantError(t, err, text)
	}
	found := 0
	for _, err := range st.List(t.Context(), store.ListQuery{}) {
		found++
		wantError(t, err, "another form")
	}
	if found != 1 {
		t.Errorf("%d pairs; want the error alone", found)
	}
	batch := []store.ClaimRequest{request("first", 1), request("string", 1), taking, request("last", 1)}
	for i, res := range st.Claim(t.Context(), batch) {
		if own := i == 0 || i == 3; own != (res.State == store.Claimed) || own == errors.Is(res.Err, store.ErrForeignEntry) {
			t.Errorf("%s in a batch: state %d, error %v", batch[i].Key, res.State, res.Err)
		}
		if i == 1 {
			wantError(t, res.Err, "not written by this version")
		}
	}
}

// No script changes an entry of a later version, which has another kind or another flag.
func TestEntryOfALaterVersionIsLeftAlone(t *testing.T) {
	client := newClient(t, server.URL())
	st := newStore(t, client, redisstore.Config{})
	for name, change := range map[string]func(entry []byte){
		"kind":    func(entry []byte) { entry[0] = 0xc5 },
		"flag 16": func(entry []byte) { entry[1] |= 16 }, "flag 128": func(entry []byte) { entry[1] |= 128 },
	} {
		claimed := mustClaim(t, st, request(name, 1))
		later := []byte(client.Get(t.Context(), st.Name(name)).Val())
		change(later)
		client.Set(t.Context(), st.Name(name), later, 0)
		taking := request(name, 1)
		taking.TakeOver = true
		errs := []error{claim(t, st, request(name, 2)).Err, claim(t, st, taking).Err}
		for _, op := range []store.SettleOp{store.OpComplete, store.OpFail, store.OpRelease, store.OpExtend} {
			errs = append(errs, settle(t, st, settlement(claimed, op)))
		}
		for _, err := range errs {
			wantError(t, err, "not written by this version of idemsk")
		}
		if now := client.Get(t.Context(), st.Name(name)).Val(); now != string(later) {
			t.Errorf("another %s: the entry was changed to %x", name, now)
		}
	}
}

func TestListReadsAllPagesAndIgnoresOtherKeys(t *testing.T) {
	for name, url := range map[string]string{"Redis": server.URL(), "Redis Cluster": cluster.URL()} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, url)
			st := newStore(t, client, redisstore.Config{})
			neighbour := newStore(t, client, redisstore.Config{Prefix: st.Prefix() + "x"})
			mustClaim(t, neighbour, request("a", 1))
			const n = 2000
			var reqs []store.ClaimRequest
			for i := range n {
				reqs = append(reqs, request(fmt.Sprint("}", i, "{x}"), i))
			}
			for _, res := range st.Claim(t.Context(), reqs) {
				if res.State != store.Claimed {
					t.Fatal(res.Err)
				}
			}
			seen := make(map[string]bool)
			for entry, err := range st.List(t.Context(), store.ListQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				seen[entry.Key] = true
			}
			if len(seen) != n || !seen["}7{x}"] {
				t.Errorf("%d keys; want %d", len(seen), n)
			}
		})
	}
}
