package storetest

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
)

// contenders is the number of concurrent claims on one key.
const contenders = 64

func oneWinner() []test {
	return []test{
		{"64 concurrent claims on an absent key", func(s *suite) { s.race() }},
		{"64 concurrent claims on a key whose lease is over", func(s *suite) {
			s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
			s.race()
		}},
		{"64 concurrent claims on a released key", func(s *suite) {
			s.do(s.mustClaim(), store.OpRelease)
			s.race()
		}},
		{"64 concurrent claims on an expired key", func(s *suite) {
			s.do(s.mustClaim(), store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
			s.race()
		}},
		{"overlapping batches of many keys", func(s *suite) { s.raceBatches() }},
		{"a batch answers in order, key by key", func(s *suite) { s.mixedBatch() }},
	}
}

// race sends concurrent claims on one key: one wins, and all others see the winner.
func (s *suite) race() {
	s.Helper()
	reqs := make([]store.ClaimRequest, contenders)
	for i := range reqs {
		reqs[i] = s.request()
	}
	results := make([]store.ClaimResult, contenders)
	atOnce(contenders, func(i int) { results[i] = s.Store.Claim(s.ctx(), reqs[i:i+1])[0] })
	winners := 0
	for i, res := range results {
		switch {
		case res.Err != nil:
			s.Errorf("contender %d: %v", i, res.Err)
		case res.State == store.Claimed:
			winners++
			if res.Entry.Owner != reqs[i].Owner {
				s.Errorf("contender %d won the key for %q", i, res.Entry.Owner)
			}
		case res.State != store.ClaimInFlight:
			s.Errorf("contender %d: state %d; want %d", i, res.State, store.ClaimInFlight)
		}
	}
	if winners != 1 {
		s.Errorf("%d winners; want 1", winners)
	}
}

func (s *suite) raceBatches() {
	const keys, batches = 20, 8
	wins := make([]int, keys)
	var mu sync.Mutex
	batch := make([][]store.ClaimRequest, batches)
	for b := range batch {
		for k := range keys {
			batch[b] = append(batch[b], s.request(withKey("k"+strconv.Itoa((k+b)%keys))))
		}
	}
	atOnce(batches, func(b int) {
		for i, res := range s.Store.Claim(s.ctx(), batch[b]) {
			if res.State == store.Claimed {
				mu.Lock()
				wins[(i+b)%keys]++
				mu.Unlock()
			}
		}
	})
	for k, n := range wins {
		if n != 1 {
			s.Errorf("key %d was won %d times; want once", k, n)
		}
	}
}

func (s *suite) mixedBatch() {
	s.do(s.mustClaim(withKey("completed")), store.OpComplete)
	s.do(s.mustClaim(withKey("failed")), store.OpFail)
	s.mustClaim(withKey("held"))
	s.mustClaim(withKey("other"), withValue("other"))
	got := s.Store.Claim(s.ctx(), []store.ClaimRequest{
		s.request(withKey("absent")), s.request(withKey("completed")), s.request(withKey("held")),
		s.request(withKey("failed")),
		s.request(withKey("other")),
	})
	want := []store.ClaimState{store.Claimed, store.ClaimCompleted, store.ClaimInFlight, store.ClaimFailed,
		store.ClaimUnknown}
	if len(got) != len(want) {
		s.Fatalf("%d results; want %d", len(got), len(want))
	}
	for i := range want {
		if got[i].State != want[i] || (want[i] == store.ClaimUnknown) != errors.Is(got[i].Err,
			store.ErrFingerprintMismatch) {
			s.Errorf("result %d: state %d, error %v; want state %d", i, got[i].State, got[i].Err, want[i])
		}
	}
}

// atOnce calls f(0), …, f(n-1) concurrently, as simultaneously as possible.
func atOnce(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func fencingToken() []test {
	return []test{
		{"a fresh claim starts at the time in epoch ms", func(s *suite) {
			entry := s.mustClaim()
			s.wantTime("token, as a time,", time.UnixMilli(entry.Token), s.Now())
		}},
		{"a steal adds 1", func(s *suite) {
			entry := s.mustClaim()
			s.Advance(lease + s.Skew + time.Millisecond)
			s.wantNext(entry)
		}},
		{"a re-claim after a release adds 1", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpRelease)
			s.wantNext(entry)
		}},
		{"a re-claim after logical expiry adds 1", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
			s.wantNext(entry)
		}},
		{"a redrive adds 1", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpFail)
			s.wantNext(entry, withRedrive(entry.Token))
		}},
		{"settlements leave it alone", func(s *suite) {
			for _, op := range allOps() {
				entry := s.mustClaim(withKey(op.String()))
				s.do(entry, op)
				if got := s.get(op.String()); got.Token != entry.Token || got.Owner != entry.Owner {
					s.Errorf("after %s: token %d of %q; want %d of %q", op, got.Token, got.Owner, entry.Token,
						entry.Owner)
				}
			}
		}},
		{"it grows across physical deletion", func(s *suite) {
			first := s.mustClaim()
			s.do(first, store.OpRelease)
			second := s.mustClaim()
			s.do(second, store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
			s.Sweep(s.T)
			if raw := s.Raw(s.T, key); raw != nil {
				s.Fatalf("the sweep left %s", raw)
			}
			if third := s.mustClaim(); third.Token <= second.Token {
				s.Errorf("token %d after deletion; want more than %d", third.Token, second.Token)
			}
		}},
	}
}

func (s *suite) wantNext(entry store.Entry, options ...func(*store.ClaimRequest)) {
	s.Helper()
	if next := s.mustClaim(options...); next.Token != entry.Token+1 {
		s.Errorf("token %d after %d; want %d", next.Token, entry.Token, entry.Token+1)
	}
}

func fingerprint() []test {
	mismatch := func(name string, prepare func(s *suite, entry store.Entry)) test {
		return test{name + ": refused, redriven or not, and no byte changed", func(s *suite) {
			entry := s.mustClaim()
			prepare(s, entry)
			before := s.Raw(s.T, key)
			for _, redrive := range []int64{0, entry.Token} {
				res := s.claim(withRedrive(redrive), withValue("another value"))
				if !errors.Is(res.Err, store.ErrFingerprintMismatch) {
					s.Errorf("state %d, error %v; want ErrFingerprintMismatch", res.State, res.Err)
				}
				s.wantUnchanged(key, before)
				s.wantEntry(res.Entry, s.get(key))
			}
		}}
	}
	return []test{
		mismatch("STARTED", func(*suite, store.Entry) {}),
		mismatch("STARTED, lease over", func(s *suite,
			_ store.Entry) {
			s.Advance(lease + s.Skew + time.Millisecond)
		}),
		mismatch("STARTED, released", func(s *suite, entry store.Entry) { s.do(entry, store.OpRelease) }),
		mismatch("COMPLETED", func(s *suite, entry store.Entry) { s.do(entry, store.OpComplete) }),
		mismatch("FAILED", func(s *suite, entry store.Entry) { s.do(entry, store.OpFail) }),
		{"after the end of retention it is a new request", func(s *suite) {
			s.do(s.mustClaim(), store.OpComplete)
			s.Advance(retention + s.Skew + time.Second)
			entry := s.mustClaim(withValue("another value"))
			if want := store.FingerprintOf([]byte("another value")); entry.Fingerprint != want {
				s.Errorf("fingerprint %v; want %v", entry.Fingerprint, want)
			}
		}},
		{"none is never compared", func(s *suite) {
			s.do(s.mustClaim(withoutFingerprint, withKey("without")), store.OpComplete)
			s.wantState(s.claim(withKey("without")), store.ClaimCompleted)
			s.do(s.mustClaim(withKey("with")), store.OpComplete)
			s.wantState(s.claim(withKey("with"), withoutFingerprint), store.ClaimCompleted)
		}},
		{"a claim without one takes a key over and leaves the key its own", func(s *suite) {
			s.do(s.mustClaim(), store.OpRelease)
			s.do(s.mustClaim(withoutFingerprint), store.OpRelease)
			if res := s.claim(withValue("another value")); !errors.Is(res.Err, store.ErrFingerprintMismatch) {
				s.Errorf("state %d, error %v; want ErrFingerprintMismatch", res.State, res.Err)
			}
		}},
		{"a tombstone's is not that of an empty value", func(s *suite) {
			s.do(s.mustClaim(func(r *store.ClaimRequest) { r.Fingerprint = store.FingerprintOf(nil) }),
				store.OpComplete)
			if res := s.claim(withValue("")); !errors.Is(res.Err, store.ErrFingerprintMismatch) {
				s.Errorf("state %d, error %v; want ErrFingerprintMismatch", res.State, res.Err)
			}
		}},
	}
}

func redrive() []test {
	return []test{
		{"opens the FAILED key whose token it carries, attempts reset", func(s *suite) {
			s.do(s.mustClaim(), store.OpRelease)
			entry := s.mustClaim()
			s.do(entry, store.OpFail)
			got := s.mustClaim(withRedrive(entry.Token))
			if got.Attempts != 1 || got.Failure != nil {
				s.Errorf("attempts %d, failure %v; want 1 and none", got.Attempts, got.Failure)
			}
		}},
		{"does not open a later failure", func(s *suite) {
			first := s.mustClaim()
			s.do(first, store.OpFail)
			second := s.mustClaim(withRedrive(first.Token))
			s.do(second, store.OpFail)
			s.wantState(s.claim(withRedrive(first.Token)), store.ClaimFailed)
			s.mustClaim(withRedrive(second.Token))
		}},
		{"does not open an earlier failure: its header was not issued with a dead letter of this key",
			func(s *suite) {
				entry := s.mustClaim()
				s.do(entry, store.OpFail)
				for _, forged := range []int64{entry.Token + 1, 1 << 60, math.MaxInt64} {
					s.wantState(s.claim(withRedrive(forged)), store.ClaimFailed)
				}
				s.mustClaim(withRedrive(entry.Token))
			}},
		{"does not open COMPLETED", func(s *suite) {
			entry := s.mustClaim()
			s.do(entry, store.OpComplete)
			s.wantState(s.claim(withRedrive(entry.Token)), store.ClaimCompleted)
		}},
		{"does not take a live lease", func(s *suite) {
			entry := s.mustClaim()
			s.wantState(s.claim(withRedrive(entry.Token)), store.ClaimInFlight)
		}},
		{"without it FAILED stays", func(s *suite) {
			s.do(s.mustClaim(), store.OpFail)
			s.wantState(s.claim(), store.ClaimFailed)
		}},
	}
}

// states are the possible states of a key, each with a function that creates it.
func states() map[string]func(s *suite) {
	return map[string]func(s *suite){
		"live":       func(s *suite) { s.mustClaim() },
		"lease over": func(s *suite) { s.mustClaim(); s.Advance(lease + s.Skew + time.Millisecond) },
		"released":   func(s *suite) { s.do(s.mustClaim(), store.OpRelease) },
		"completed":  func(s *suite) { s.do(s.mustClaim(), store.OpComplete) },
		"failed":     func(s *suite) { s.do(s.mustClaim(), store.OpFail) },
	}
}

// Benchmark measures a store: a new key (claim and completion), a duplicate, and contended claims on one key.
func Benchmark(b *testing.B, st store.Store) {
	b.Helper()
	n := 0
	request := func(key string) []store.ClaimRequest {
		n++
		return []store.ClaimRequest{{Key: key, Owner: "owner-" + strconv.Itoa(n), Lease: lease,
			Retention: retention, Source: source}}
	}
	fresh := func(b *testing.B, key string) {
		b.Helper()
		res := st.Claim(b.Context(), request(key))[0]
		if res.State != store.Claimed {
			b.Fatalf("state %d, error %v", res.State, res.Err)
		}
		if errs := st.Settle(b.Context(),
			[]store.Settlement{settlement(res.Entry, store.OpComplete)}); errs != nil {
			b.Fatal(errs[0])
		}
	}
	b.Run("fresh", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			fresh(b, fmt.Sprintf("%s-%d", b.Name(), n))
		}
	})
	b.Run("duplicate", func(b *testing.B) {
		fresh(b, b.Name())
		b.ReportAllocs()
		for b.Loop() {
			if res := st.Claim(b.Context(), request(b.Name()))[0]; res.State != store.ClaimCompleted {
				b.Fatalf("state %d, error %v", res.State, res.Err)
			}
		}
	})
	b.Run("contended", func(b *testing.B) {
		st.Claim(b.Context(), request(b.Name()))
		reqs := request(b.Name())
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if res := st.Claim(b.Context(), reqs)[0]; res.State != store.ClaimInFlight {
					b.Errorf("state %d, error %v", res.State, res.Err)
					return
				}
			}
		})
	})
}
