//go:build servers

package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemsk/idemsk/idem/redisstore"
	"github.com/idemsk/idemsk/idem/store"
)

// beforeReading is a client hook that calls a function once, before values are read.
type beforeReading struct{ do func() }

func (*beforeReading) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn,
		error) {
		return next(ctx, network, addr)
	}
}

func (*beforeReading) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *beforeReading) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if do := h.do; do != nil && cmds[0].Name() == "get" {
			h.do = nil
			do()
		}
		return next(ctx, cmds)
	}
}

// A result of more than 4 KiB is not in the answer of a script. It is read separately and must belong to the
// answered entry.
func TestLargeResultIsReadSeparately(t *testing.T) {
	large := bytes.Repeat([]byte("r"), 4<<10+1)
	st := newStore(t, newClient(t, server.URL()), redisstore.Config{})
	hook := &beforeReading{}
	client := newClient(t, server.URL())
	client.AddHook(hook)
	reader := newStore(t, client, redisstore.Config{Prefix: st.Prefix()})
	complete := func(owner int) store.Entry {
		entry := mustClaim(t, st, request("a", owner))
		done := settlement(entry, store.OpComplete)
		done.Result = large
		if err := settle(t, st, done); err != nil {
			t.Fatal(err)
		}
		return entry
	}
	remove := func(entry store.Entry) {
		if err := st.Delete(t.Context(), entry.Key, entry.Token); err != nil {
			t.Error(err)
		}
	}
	entry := complete(1)
	res := claim(t, reader, request("a", 2))
	if res.State != store.ClaimCompleted || !bytes.Equal(res.Entry.Result, large) {
		t.Errorf("a duplicate: state %d, %v, a result of %d bytes", res.State, res.Err, len(res.Entry.Result))
	}
	late := settlement(entry, store.OpComplete)
	late.Owner = "another"
	var fenced *store.FencedError
	if err := settle(t, reader, late); !errors.As(err, &fenced) ||
		!bytes.Equal(fenced.Current.Result, large) {
		t.Errorf("a late owner: %v", err)
	}
	for what, change := range map[string]func(entry store.Entry){
		"deleted": remove,
		"claimed anew": func(entry store.Entry) {
			remove(entry)
			mustClaim(t, st, request("a", 3))
		},
	} {
		hook.do = func() { change(entry) }
		if res := claim(t, reader, request("a", 2)); res.State != store.ClaimUnknown {
			t.Errorf("%s: state %d, want none", what, res.State)
		} else {
			wantError(t, res.Err, "changed while it was read")
		}
		if now, err := st.Get(t.Context(), "a"); err == nil {
			remove(now)
		}
		entry = complete(4)
	}
}
