package msk_test

import (
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/idemsk/idemsk/kafka"
)

// A record whose key a record of another partition had claimed is counted, in addition to its outcome.
func TestKeysInTwoPartitionsAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		scope  kafka.KeyScope
		places []string // each is delivered in a batch of its own, with the same key and value
		want   int      // by the last batch
	}{
		"one partition":   {kafka.TopicScope, []string{"payments-0@1", "payments-0@7"}, 0},
		"two partitions":  {kafka.TopicScope, []string{"payments-0@1", "payments-1@1"}, 1},
		"the same record": {kafka.TopicScope, []string{"payments-0@1", "payments-0@1"}, 0},
		"two topics, in which keys are different": {kafka.TopicScope,
			[]string{"payments-0@1", "refunds-0@1"}, 0},
		"two topics, in which keys are the same": {kafka.NamespaceScope,
			[]string{"payments-0@1", "refunds-0@1"}, 1},
		"numbers of which one begins as the other": {kafka.TopicScope,
			[]string{"payments-1@1", "payments-12@1"}, 1},
	} {
		for mode, byPartition := range map[string]bool{"claims by key": false, "claims by range": true} {
			t.Run(name+", "+mode, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newFixture(t)
					s.cfg.Records.KeyScope = tc.scope
					s.engine.ClaimByPartition = byPartition
					for _, place := range tc.places {
						equalSlices(t, "reported places", s.deliver(recordAt(place, "a")))
						checkCounts(t, s.last())
					}
					equal(t, "keys in two partitions", s.last().KeysInTwoPartitions, tc.want)
				})
			})
		}
	}
}

// Two records of one batch that share a key are counted too: the second one shares the outcome of the first.
func TestKeysInTwoPartitionsOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.deliver(recordAt("payments-0@1", "a"), recordAt("payments-1@1", "a"))
		equal(t, "duplicates", s.last().Duplicates, 1)
		equal(t, "keys in two partitions", s.last().KeysInTwoPartitions, 1)
	})
}

// A redriven record may come back through another partition: its key is claimed in each mode.
func TestRedrivenRecordInAnotherPartitionIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.deliver(recordAt("payments-0@1", "a"))
		s.deliver(recordAt("payments-1@1", "a").header(kafka.RedriveHeader,
			strconv.FormatInt(s.get(keyA).Token, 10)))
		equal(t, "replayed", s.last().Replayed, 1)
		equal(t, "keys in two partitions", s.last().KeysInTwoPartitions, 0)
	})
}

// With claims by range the line of such a record is a warning.
func TestKeysInTwoPartitionsAreLogged(t *testing.T) {
	for mode, byPartition := range map[string]bool{"claims by key": false, "claims by range": true} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFixture(t)
				s.engine.ClaimByPartition = byPartition
				s.deliver(recordAt("payments-0@1", "a"), recordAt("payments-0@2", "b"))
				s.deliver(recordAt("payments-1@1", "c"), recordAt("payments-1@2", "a"),
					recordAt("payments-0@2", "b"))

				equal(t, "count of the batch", s.log.of("batch")[1]["keysInTwoPartitions"], any(1.0))
				equal(t, "count of the batch before", s.log.of("batch")[0]["keysInTwoPartitions"], nil)
				record := s.log.about("payments-1@2")
				equal(t, "claimed by", record["claimedBy"], any("payments-0@1"))
				level, warning := any("INFO"), any(nil)
				if byPartition {
					level, warning = "WARN",
						"keys arrive through two partitions: their handlers may run at the same time; want IDEMSK_CLAIM=key"
				}
				equal(t, "level", record["level"], level)
				equal(t, "warning", record["warning"], warning)
				equal(t, "level of a duplicate in one partition", s.log.about("payments-0@2")["level"],
					any("INFO"))
			})
		})
	}
}
