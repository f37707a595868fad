package esm_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// BenchmarkLocal delivers records of 200 bytes from a broker in this process, through the mapping and the
// Runtime API on loopback, to a process that does nothing. It reports the records a second, the time from the
// start to the first answer, the CPU time of a record, and the share of this process in it: broker, mapping
// and Runtime API.
func BenchmarkLocal(b *testing.B) {
	const perRound = 100_000
	c := newCluster(b, 6)
	recs := make([]*kgo.Record, perRound)
	random := rand.NewChaCha8([32]byte{}) // what does not compress
	for i := range recs {
		value := make([]byte, 200)
		_, _ = random.Read(value) // never fails
		recs[i] = &kgo.Record{Topic: topic, Partition: int32(i % 6), Key: []byte("account-01"), Value: value,
			Headers: []kgo.RecordHeader{{Key: "idempotency-key", Value: []byte("pay-1-000001")}}}
	}
	for some := range slices.Chunk(recs, 10_000) { // what the broker takes at once
		write(b, c, some...)
	}
	cfg := config()
	cfg.BatchSize, cfg.Pollers = 500, 2
	rounds, sent := 0, 0
	var took, first, own, all time.Duration
	for b.Loop() {
		rounds++
		cfg.ConsumerGroup = "group-" + time.Now().Format(time.RFC3339Nano) // reads it all again
		begun, self, children := time.Now(), cpu(b, syscall.RUSAGE_SELF), cpu(b, syscall.RUSAGE_CHILDREN)
		answered := sync.OnceFunc(func() { first += time.Since(begun) })
		p := parts(c, startNoop)
		w := &watcher{seen: func(esm.Event) { answered() }}
		p.Observe = w.Observe
		if err := run(b, cfg, p); err != nil {
			b.Fatal(err)
		}
		took += time.Since(begun)
		if _, delivered := w.of(esm.Invoked); delivered != perRound {
			b.Fatalf("%d records were delivered, want %d", delivered, perRound)
		}
		for _, e := range w.events {
			sent += e.Bytes
		}
		mine := cpu(b, syscall.RUSAGE_SELF) - self
		own, all = own+mine, all+mine+cpu(b, syscall.RUSAGE_CHILDREN)-children
	}
	records := float64(rounds * perRound)
	b.ReportMetric(records/took.Seconds(), "records/s")
	b.ReportMetric(float64(sent)/records, "B/record")
	b.ReportMetric(first.Seconds()*1000/float64(rounds), "ms-to-first")
	b.ReportMetric(float64(all.Microseconds())/records, "CPU-µs/record")
	b.ReportMetric(100*own.Seconds()/all.Seconds(), "%own-CPU")
}

// cpu returns the used CPU time.
func cpu(b *testing.B, who int) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(who, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
