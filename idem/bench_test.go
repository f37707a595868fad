package idem_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
)

// benchKeys is the number of entries after which a new store is used, so that it stays small.
const benchKeys = 1000

// BenchmarkEngine measures the engine with the memory store per task: a trivial handler, in a session with a deadline.
func BenchmarkEngine(b *testing.B) {
	for _, bm := range []struct {
		name  string
		claim int // claims in one call of Claim
		want  idem.Kind
	}{
		{"fresh", 1, idem.Executed},
		{"fresh claimed by the thousand", benchKeys, idem.Executed},
		{"duplicate", 1, idem.Replayed},
	} {
		b.Run(bm.name, func(b *testing.B) {
			ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
			defer cancel()
			keys := make([]string, benchKeys)
			for i := range keys {
				keys[i] = "payments#" + strconv.Itoa(i)
			}
			handler := idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil })
			claims := make([]*idem.Claim, benchKeys)
			fresh := make([]idem.Claim, benchKeys)
			var s *idem.Session
			record := func(i int, want idem.Kind) {
				if i%bm.claim == 0 {
					s.Claim(claims[i : i+bm.claim])
				}
				if out := s.Run(claims[i]); out.Kind != want {
					b.Fatalf("%v: %v", out.Kind, out.Err)
				}
			}
			renew := func() {
				if s == nil || bm.want == idem.Executed {
					s = session(b, newEngine(b, memstore.New(memstore.Config{}), idem.Config{}), ctx)
				}
				for i := range claims {
					claims[i] = &fresh[i]
					fresh[i] = idem.Claim{Task: idem.Task{Key: keys[i], Fingerprint: idem.Fingerprint{1}, Source: "payments-3@17", Handler: handler}}
				}
			}
			renew()
			if bm.want == idem.Replayed {
				for i := range claims {
					record(i, idem.Executed)
				}
			}
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				i := n % benchKeys
				if i == 0 {
					renew()
				}
				record(i, bm.want)
			}
		})
	}
}
