package esm

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/mskevent"
)

// some returns records: "0@5" is offset 5 of partition 0.
func some(places ...string) []Record {
	var all []Record
	for _, place := range places {
		var r Record
		if _, err := fmt.Sscanf(place, "%d@%d", &r.Partition, &r.Offset); err != nil {
			panic(err)
		}
		r.JSON, r.PartitionID = []byte("{}"), fmt.Sprintf("t-%d", r.Partition)
		all = append(all, r)
	}
	return all
}

func list(records []Record) string {
	var all []string
	for i := range records {
		all = append(all, fmt.Sprintf("%d@%d", records[i].Partition, records[i].Offset))
	}
	return strings.Join(all, " ")
}

func TestRetriedRecords(t *testing.T) {
	t.Parallel()
	records := some("0@1", "1@7", "0@2", "0@3", "1@8")
	named := map[mskevent.Place]bool{{Partition: "t-0", Offset: 2}: true, {Partition: "t-1", Offset: 7}: true}
	for retry, want := range map[string]string{RetryNamed: "1@7 0@2", RetryFromLowest: "1@7 0@2 0@3 1@8"} {
		c := Config{Retry: retry}
		if got := list(c.retried(records, named)); got != want {
			t.Errorf("%s: %s, want %s", retry, got, want)
		}
		if got := c.retried(records, nil); got != nil {
			t.Errorf("%s, nothing named: %s", retry, list(got))
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	all := some("0@1", "1@1", "0@2")
	for name, test := range map[string]struct {
		config   Config
		failed   []Record
		error    bool
		retries  int
		again    string // each delivery with its retries
		lost     string
		bisected bool
	}{
		"nothing failed": {config: Config{MaximumRetryAttempts: 0}, again: ""},
		"retried without end": {config: Config{MaximumRetryAttempts: Infinite}, failed: all,
			error: true, retries: 1_000_000, again: "0@1 1@1 0@2 (1000001)"},
		"some are retried": {config: Config{MaximumRetryAttempts: 1}, failed: all[1:], again: "1@1 0@2 (1)"},
		"no retries": {config: Config{MaximumRetryAttempts: 0}, failed: all, error: true,
			lost: "0@1 1@1 0@2"},
		"the last retry": {config: Config{MaximumRetryAttempts: 2}, failed: all[:1], retries: 2, lost: "0@1"},
		"the one before the last": {config: Config{MaximumRetryAttempts: 2}, failed: all[:1],
			retries: 1, again: "0@1 (2)"},
		"no end but a destination": {config: Config{MaximumRetryAttempts: Infinite, OnFailure: "x"},
			failed: all, retries: 10, lost: "0@1 1@1 0@2"},
		"no end but a destination, 9": {config: Config{MaximumRetryAttempts: Infinite, OnFailure: "x"},
			failed: all[:1], retries: 9, again: "0@1 (10)"},
		"split, which is no retry": {config: Config{BisectBatchOnFunctionError: true}, failed: all,
			error: true, again: "0@1 (0) | 1@1 0@2 (0)", bisected: true},
		"one record can't be split": {config: Config{BisectBatchOnFunctionError: true}, failed: all[:1],
			error: true, lost: "0@1"},
		"what is named is never split": {config: Config{BisectBatchOnFunctionError: true,
			MaximumRetryAttempts: 1}, failed: all, again: "0@1 1@1 0@2 (1)"},
		"a half keeps what was retried": {config: Config{BisectBatchOnFunctionError: true,
			MaximumRetryAttempts: 5}, failed: all, error: true, retries: 3, again: "0@1 (3) | 1@1 0@2 (3)",
			bisected: true},
	} {
		v := test.config.judge(&delivery{records: all, retries: test.retries}, test.failed, test.error)
		var again []string
		for _, d := range v.again {
			again = append(again, fmt.Sprintf("%s (%d)", list(d.records), d.retries))
		}
		if got := strings.Join(again, " | "); got != test.again || list(v.lost) != test.lost ||
			v.bisected != test.bisected {
			t.Errorf("%s: again %q, lost %q, bisected %v", name, got, list(v.lost), v.bisected)
		}
	}
}

func TestAge(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	records := some("0@1", "0@2", "0@3", "0@4")
	records[0].Timestamp, records[1].Timestamp, records[2].Timestamp, records[3].Timestamp = 939_999, 940_000,
		-1, 1_100_000
	c := Config{MaximumRecordAge: time.Minute}
	if young, old := c.tooOld(records, now); list(young) != "0@2 0@3 0@4" || list(old) != "0@1" {
		t.Errorf("young %s, old %s", list(young), list(old))
	}
	c.MaximumRecordAge = Infinite
	if young, old := c.tooOld(records, now); len(young) != 4 || old != nil {
		t.Errorf("without a limit: young %s, old %s", list(young), list(old))
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	c := Config{RetryDelay: 100 * time.Millisecond}
	for n, want := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond,
		7: 6400 * time.Millisecond, 8: 10 * time.Second, 100_000: 10 * time.Second} {
		if got := c.delay(n); got != want {
			t.Errorf("retry %d after %s, want %s", n, got, want)
		}
	}
	c.RetryDelay = 0
	if got := c.delay(1000); got != 0 {
		t.Errorf("without a delay: %s", got)
	}
	c.RetryDelay = time.Minute
	if got := c.delay(3); got != time.Minute {
		t.Errorf("longer than the bound: %s", got)
	}
}

func TestOffsetsOfAnUnfinishedBatch(t *testing.T) {
	t.Parallel()
	ends := offsets{0: 10, 1: 20, 2: 30}
	rest := []delivery{{records: some("0@7", "1@19")}, {records: some("0@5")}}
	if got, want := ends.unless(rest), (offsets{0: 5, 1: 19, 2: 30}); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ends.unless(nil); !reflect.DeepEqual(got, ends) {
		t.Errorf("nothing left: %v", got)
	}
}

func TestDeal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		partitions []int32
		pollers    int
		want       [][]int32
	}{
		{[]int32{0, 1, 2, 3, 4}, 2, [][]int32{{0, 2, 4}, {1, 3}}},
		{[]int32{0, 1}, 5, [][]int32{{0}, {1}}},
		{nil, 5, [][]int32{}},
	} {
		if got := deal(test.partitions, test.pollers); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%v among %d: %v", test.partitions, test.pollers, got)
		}
	}
}
