//go:build rest

package e2e_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/idem/storetest"
)

// A process is stopped until its leases are over, and continued. Of a key that another process has taken, it
// can neither extend the lease nor write the result, and an effect that commits with the completion happens
// once. A key that no other process has taken is still its own: its completion counts, and an error releases
// the key.
func pausedProcesses(t *testing.T, kind, url string) {
	t.Helper()
	const lease, skew = 5 * time.Second, 100 * time.Millisecond
	ctx, b := patient(t), open(t, kind, url, 0)
	trace := storetest.TraceProcesses(t, skew)
	one := start(t, setup{Name: "one", Kind: kind, URL: url, Lease: lease, Skew: skew}, trace)
	two := start(t, setup{Name: "two", Kind: kind, URL: url, Lease: lease, Skew: skew}, trace)
	key := func(what string) string { return fmt.Sprintf("%s: %s", kind, what) }
	var (
		before   = key("stopped before the effect, completed by another")
		after    = key("stopped after the effect, completed by another")
		taken    = key("stopped after the effect, taken by another")
		own      = key("stopped after the effect, not taken")
		failing  = key("stopped before the effect, not taken, failing")
		all      = []string{before, after, taken, own, failing}
		byTwo    = []string{before, after, taken}
		finished = []string{before, after}
	)
	one.each(claim, begun, all...)
	one.each(effect, effected, after, taken, own)
	one.Signal(syscall.SIGSTOP)

	two.each(take, begun, byTwo...)
	two.each(effect, effected, byTwo...)
	for _, key := range finished {
		two.wantEnd(finish, key, "Executed by two")
	}
	for _, key := range []string{own, failing} {
		b.waitForTheEndOfTheLease(ctx, t, key)
	}
	completed := make(map[string]store.Entry)
	for _, key := range finished {
		completed[key] = b.entry(ctx, t, key)
	}
	held := b.entry(ctx, t, taken)

	one.Signal(syscall.SIGCONT)
	for _, key := range all {
		one.wait(key, lost)
	}
	one.order(extend, append(byTwo, own)...)
	for _, key := range byTwo {
		if text := one.wait(key, extended).Text; !strings.Contains(text, store.ErrFenced.Error()) {
			t.Errorf("%s: the former owner's extension: %q; want %q", key, text, store.ErrFenced)
		}
	}
	if text := one.wait(own, extended).Text; text != "" {
		t.Errorf("%s: the owner's extension: %s", own, text)
	}
	one.each(effect, effected, before)
	one.order(finish, all[:4]...)
	for key, want := range map[string]string{
		before: "Replayed by two", after: "Replayed by two", taken: "Fenced", own: "Executed by one",
	} {
		if got := one.wait(key, ended).Text; got != want {
			t.Errorf("process one: %s: %s; want %s", key, got, want)
		}
	}
	for key, want := range completed {
		if got := b.entry(ctx, t, key); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the former owner changed the entry to\n%+v; want\n%+v", key, got, want)
		}
	}
	if got := b.entry(ctx, t, taken); got.Status != store.StatusStarted || got.Token != held.Token ||
		got.Owner != held.Owner || got.Attempts != 2 {
		t.Errorf("%s: the former owner changed the entry to\n%+v; want\n%+v", taken, got, held)
	}
	two.wantEnd(finish, taken, "Executed by two")

	one.wantEnd(fail, failing, "Retry")
	if got := b.entry(ctx, t, failing); !got.Released() {
		t.Errorf("%s is not released: %+v", failing, got)
	}
	two.each(take, begun, failing)
	two.each(effect, effected, failing)
	two.wantEnd(finish, failing, "Executed by two")

	b.wantEffects(t, own, 1)
	b.wantEffects(t, failing, 1)
	for _, key := range byTwo {
		if kinds[kind].atomic {
			b.wantEffects(t, key, 1)
		} else {
			b.wantEffects(t, key, 2) // as documented: one completion, not one execution
		}
	}
}

// waitForTheEndOfTheLease asks the store until the lease is over. It does not take the key.
func (b *books) waitForTheEndOfTheLease(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	for {
		res := b.store.Claim(ctx, []store.ClaimRequest{{Key: key, Owner: "the test", Lease: time.Minute,
			Retention: time.Hour}})[0]
		switch {
		case res.State == store.ClaimLeaseOver:
			return
		case res.State != store.ClaimInFlight:
			t.Fatalf("%s: state %d, %v", key, res.State, res.Err)
		}
		<-time.After(res.ClaimableIn)
	}
}

func (b *books) entry(ctx context.Context, t *testing.T, key string) store.Entry {
	t.Helper()
	entry, err := b.store.Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}
