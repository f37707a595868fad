//go:build rest

package e2e_test

import (
	"syscall"
	"testing"
	"time"
)

// DynamoDB has no clock that a condition can use, so the clocks of the processes decide. As long as they
// differ by less than MaxClockSkew, no lease is taken before it is over by the owner's clock, in either
// direction. If they differ by more, a lease can be taken while its owner works, so that two handlers run at
// the same time; one of them completes, and the other is fenced.
func clocks(t *testing.T, kind, url string) {
	t.Helper()
	if kinds[kind].server != onDynamoDB {
		return // the clock of the server decides
	}
	const lease, skew = 3 * time.Second, time.Second
	ctx, b := patient(t), open(t, kind, url, 0)
	process := func(name string, ahead time.Duration) *peer {
		return start(t, setup{Name: name, Kind: kind, URL: url, Lease: lease, Skew: skew, Ahead: ahead})
	}
	owner := process("owner", 0)
	peers := map[string]*peer{
		kind + ": ahead":  process("ahead", skew-time.Millisecond),
		kind + ": behind": process("behind", -skew+time.Millisecond),
	}
	keys := make([]string, 0, len(peers))
	for key := range peers {
		keys = append(keys, key)
	}
	wrong, beyond := kind+": beyond", process("beyond", 2*lease+skew)
	owner.each(claim, begun, append(keys, wrong)...)
	owner.each(effect, effected, append(keys, wrong)...)

	beyond.each(take, begun, wrong) // although its owner works
	beyond.each(effect, effected, wrong)
	beyond.wantEnd(finish, wrong, "Executed by beyond")
	owner.wantEnd(finish, wrong, "Replayed by beyond")

	owner.Signal(syscall.SIGSTOP)
	over := make(map[string]time.Time)
	for key, p := range peers {
		over[key] = b.entry(ctx, t, key).LeaseUntil // an extension in flight can only be later
		p.order(take, key)
	}
	for key, p := range peers {
		if at := p.wait(key, begun).At; at.Before(over[key]) {
			t.Errorf("%s was taken %v before its lease was over", key, over[key].Sub(at))
		}
		p.each(effect, effected, key)
		p.wantEnd(finish, key, "Executed by "+p.name)
	}
	owner.Signal(syscall.SIGCONT)
	for key, p := range peers {
		owner.wantEnd(finish, key, "Replayed by "+p.name)
	}
	for _, key := range append(keys, wrong) {
		if kinds[kind].atomic {
			b.wantEffects(t, key, 1)
		} else {
			b.wantEffects(t, key, 2)
		}
	}
}
