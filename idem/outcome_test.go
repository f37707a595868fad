package idem_test

import (
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
)

func TestKinds(t *testing.T) {
	settled := map[idem.Kind]bool{
		idem.Executed: true, idem.Replayed: true, idem.ReplayedFailed: true, idem.DeadLettered: true,
		idem.FailedOpen: true,
	}
	names := map[string]idem.Kind{}
	for k := idem.KindUnknown; k <= idem.Behind; k++ {
		if before, ok := names[k.String()]; ok || k.String() == "" {
			t.Errorf("kind %d is named %q, as kind %d is", k, k, before)
		}
		names[k.String()] = k
		equal(t, k.String()+" is settled", k.Settled(), settled[k])
	}
	equal(t, "Executed", names["Executed"], idem.Executed)
	equal(t, "CompletionFailed", names["CompletionFailed"], idem.CompletionFailed)
	equal(t, "InvalidKey", names["InvalidKey"], idem.InvalidKey)
	equal(t, "an unknown kind", (idem.Behind + 1).String(), "Unknown")
}

func TestSettleOpNames(t *testing.T) {
	for op, want := range map[store.SettleOp]string{
		store.OpComplete: "complete", store.OpFail: "fail", store.OpRelease: "release",
		store.OpExtend: "extend", 0: "unknown",
	} {
		equal(t, "an operation", op.String(), want)
	}
}
