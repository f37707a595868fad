package schedule_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/schedule"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
)

// The price of a batch of 1,000 records in 3 partitions, in units and requests of DynamoDB, and the virtual
// time that it takes with requests of 5 ms.
func TestPriceOfRanges(t *testing.T) {
	const records, parts = 1000, 3
	run := func(t *testing.T, db *dynamofake.Server, scheduler *schedule.Scheduler, name string,
		first int) (dynamofake.Usage, time.Duration) {
		t.Helper()
		handler := idem.HandlerFunc(func(context.Context) ([]byte, error) { return nil, nil })
		lanes := make([][]*schedule.Item, parts)
		for i := range records {
			p := i % parts
			lanes[p] = append(lanes[p], &schedule.Item{
				Position: int64(first + i/parts),
				Task: idem.Task{Key: fmt.Sprint("ns#t#", name, i),
					Source: fmt.Sprintf("t-%d@%d", p, first+i/parts), Handler: handler},
			})
		}
		var ranges []schedule.Range
		for p := range lanes {
			ranges = append(ranges, schedule.Range{Key: fmt.Sprintf("ns%%t-%d", p),
				Source: lanes[p][0].Task.Source, Items: lanes[p]})
		}
		db.ResetUsage()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		scheduler.Run(ctx, lanes, ranges...)
		took := time.Since(began)
		for _, items := range lanes {
			for _, it := range items {
				if !it.Settled() {
					t.Fatalf("%s: %+v", it.Task.Key, it.Outcome)
				}
			}
		}
		return db.Usage(), took
	}
	type price struct{ write, read, requests float64 }
	each := func(u dynamofake.Usage) price {
		n := 0
		for _, of := range u.Requests {
			n += of
		}
		return price{u.WriteUnits / records, u.ReadUnits / records, float64(n) / records}
	}
	synctest.Test(t, func(t *testing.T) {
		db, scheduler := dynamo(t, idem.Config{ClaimByPartition: true})
		for _, b := range []struct {
			name  string
			first int
			most  price
		}{
			{"cold", 0, price{1.02, 1.01, 0.06}},
			{"fresh", 1000, price{1.006, 1.0, 0.054}},
			{"fresh", 1000, price{0.006, 1.0, 0.012}}, // redelivered: read
		} {
			used, took := run(t, db, scheduler, b.name, b.first)
			got := each(used)
			t.Logf("%s from %d: %.4f write units, %.4f read units, %.4f requests a record, %v: %v", b.name,
				b.first, got.write, got.read, got.requests, took, used.Requests)
			if got.write > b.most.write || got.read > b.most.read || got.requests > b.most.requests {
				t.Errorf("%s from %d: %+v a record; want at most %+v", b.name, b.first, got, b.most)
			}
		}
	})
}

// The price of a long run of fresh items of a stream, in lanes of three ranges: by partition, and by key in
// each of them.
func TestPriceOfRangesOfAStream(t *testing.T) {
	const items, parts = 9_000, 3
	for _, keys := range []int{1, 300} {
		t.Run(fmt.Sprint(keys, " lanes in a partition"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, scheduler := dynamo(t, idem.Config{ClaimByPartition: true})
				streamAll(scheduler, items, func(i int) *schedule.Item {
					p := i % parts
					return &schedule.Item{Lane: fmt.Sprintf("t/%d/%d", p, i/parts%keys),
						Range: fmt.Sprintf("ns%%t-%d", p), Position: int64(i / parts)}
				})
				used := db.Usage()
				requests := 0
				for _, n := range used.Requests {
					requests += n
				}
				write, read, each := used.WriteUnits/items, used.ReadUnits/items, float64(requests)/items
				t.Logf("%.4f write units, %.4f read units, %.4f requests an item: %v", write, read, each,
					used.Requests)
				if write > 1.02 || read > 1 || each > 0.065 {
					t.Errorf("%.4f write units, %.4f read units, %.4f requests an item; want at most 1.02, 1 and 0.065", write, read, each)
				}
			})
		})
	}
}
