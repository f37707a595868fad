package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/redisstore"
)

// beforeReading is a hook of a client that does something once, before hashes are read.
type beforeReading struct{ do func() }

func (*beforeReading) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (*beforeReading) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *beforeReading) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if do := h.do; do != nil && cmds[0].Name() == "hgetall" {
			h.do = nil
			do()
		}
		return next(ctx, cmds)
	}
}

// A result of more than 4 KiB is not in the answer of a script. It is read by itself, and belongs to what was answered.
func TestALargeResultIsReadByItself(t *testing.T) {
	large := bytes.Repeat([]byte("r"), 4<<10+1)
	store := newStore(t, newClient(t, server.URL()), redisstore.Config{})
	hook := &beforeReading{}
	client := newClient(t, server.URL())
	client.AddHook(hook)
	reader := newStore(t, client, redisstore.Config{Prefix: store.Prefix()})
	complete := func(owner int) idem.Record {
		rec := mustClaim(t, store, request("a", owner))
		done := settlement(rec, idem.OpComplete)
		done.Result = large
		if err := settle(t, store, done); err != nil {
			t.Fatal(err)
		}
		return rec
	}
	remove := func(rec idem.Record) {
		if err := store.Delete(t.Context(), rec.Key, rec.Version); err != nil {
			t.Error(err)
		}
	}
	rec := complete(1)
	res := claim(t, reader, request("a", 2))
	if res.State != idem.ClaimCompleted || !bytes.Equal(res.Record.Result, large) {
		t.Errorf("a duplicate: state %d, %v, a result of %d bytes", res.State, res.Err, len(res.Record.Result))
	}
	late := settlement(rec, idem.OpComplete)
	late.Owner = "another"
	var fenced *idem.FencedError
	if err := settle(t, reader, late); !errors.As(err, &fenced) || !bytes.Equal(fenced.Current.Result, large) {
		t.Errorf("a late owner: %v", err)
	}
	for what, change := range map[string]func(rec idem.Record){
		"deleted": remove,
		"claimed anew": func(rec idem.Record) {
			remove(rec)
			mustClaim(t, store, request("a", 3))
		},
	} {
		hook.do = func() { change(rec) }
		if res := claim(t, reader, request("a", 2)); res.State != idem.ClaimUnknown {
			t.Errorf("%s: state %d, want none", what, res.State)
		} else {
			wantError(t, res.Err, "changed while it was read")
		}
		if now, err := store.Get(t.Context(), "a"); err == nil {
			remove(now)
		}
		rec = complete(4)
	}
}
