package idem_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
)

// BenchmarkStream handles items with a trivial handler on the memory store, with 2,000 in progress.
func BenchmarkStream(b *testing.B) {
	const inProgress = 2000
	for _, bm := range []struct{ batch, lanes int }{{25, 1}, {25, 12}, {25, 1000}, {25, 0}, {100, 12},
		{1, 12}} {
		b.Run(fmt.Sprintf("%d lanes, %d elements in a request", bm.lanes, bm.batch), func(b *testing.B) {
			engine, err := idem.New(memstore.New(memstore.Config{BatchSize: bm.batch}), idem.Config{})
			if err != nil {
				b.Fatal(err)
			}
			scheduler, err := idem.NewScheduler(engine, idem.SchedulerConfig{})
			if err != nil {
				b.Fatal(err)
			}
			slots := make(chan struct{}, inProgress)
			stream := scheduler.Stream(context.Background(), func(*idem.Item) { <-slots }, nil)
			handler := idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil })
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				slots <- struct{}{}
				key := strconv.Itoa(n)
				lane := key
				if bm.lanes > 0 {
					lane = strconv.Itoa(n % bm.lanes)
				}
				stream.Add(&idem.Item{Lane: lane,
					Task: idem.Task{Key: key, Source: "payments-3@17", Handler: handler}})
			}
			for range inProgress {
				slots <- struct{}{}
			}
			stream.Close(context.Background())
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
		})
	}
}
