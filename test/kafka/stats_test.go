package kafka_test

import (
	"slices"
	"testing"
	"time"
)

// lagsSoon waits, for less than the interval at which lags are brought up to date, until a consumer has the
// lags.
func (f *fixture) lagsSoon(c *running, want ...int64) {
	f.Helper()
	var got []int64
	for range 50 {
		got = got[:0]
		for _, p := range c.Stats().Partitions {
			got = append(got, p.Lag)
		}
		if slices.Equal(got, want) {
			return
		}
		<-time.After(100 * time.Millisecond)
	}
	f.Errorf("the lags are %d after 5 s; want %d", got, want)
}

// The lag of a partition is known soon after its assignment, also if it has no record to read.
func TestLagIsKnownWithoutRecordsToRead(t *testing.T) {
	for name, test := range map[string]struct {
		produced int
		deleted  int64 // the offset before which the records were deleted
		consumed bool  // by a consumer of the group, which has ended
	}{
		"no records":                          {},
		"all records are settled":             {produced: 10, consumed: true},
		"all records were deleted":            {produced: 10, deleted: 10},
		"all records are settled and deleted": {produced: 10, deleted: 10, consumed: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				if test.produced > 0 {
					f.produce(0, test.produced, 0, 1)
				}
				if test.consumed {
					c := f.start()
					f.until("all records are handled", func() bool { return f.calledOnce(2 * test.produced) })
					c.mustEnd()
				}
				for p := range int32(2) {
					if err := f.cluster.DeleteRecords(topic, p, test.deleted); err != nil {
						f.Fatal(err)
					}
				}
				c := f.start()
				f.until("the partitions are assigned", func() bool { return len(c.Stats().Partitions) == 2 })
				f.lagsSoon(c, 0, 0)
				f.produce(10, 1, 0)
				f.until("the new record is committed",
					func() bool { return f.offsets()[0] == int64(test.produced)+1 })
				f.lagsSoon(c, 0, 0)
				c.mustEnd()
			})
		})
	}
}

// The lag of a partition that moves is soon known to its new owner, and the old one has none. Those that stay
// are not changed.
func TestLagMovesWithItsPartition(t *testing.T) {
	for name, protocol := range protocols {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				f.produce(0, 10, 0, 1)
				first := f.start(protocol)
				f.until("all records are handled", func() bool { return f.calledOnce(20) })
				f.lagsSoon(first, 0, 0)
				second := f.start(protocol)
				f.until("the second member has a partition",
					func() bool { return len(second.Stats().Partitions) == 1 })
				f.lagsSoon(first, 0)
				f.lagsSoon(second, 0)
				second.mustEnd()
				f.until("the partition is back", func() bool { return len(first.Stats().Partitions) == 2 })
				f.lagsSoon(first, 0, 0)
				first.mustEnd()
			})
		})
	}
}
