package stream_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/stream"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

func payloads(t *testing.T, c stream.Config) [][]byte {
	t.Helper()
	var all [][]byte
	for b, err := range c.Batches() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b.Payload())
	}
	return all
}

func TestSameSeedSameStream(t *testing.T) {
	t.Parallel()
	c := stream.Config{Records: 1050, Partitions: 3, BatchSize: 100, Seed: 5}
	first, second := payloads(t, c), payloads(t, c)
	if len(first) != 11 || !slices.EqualFunc(first, second, bytes.Equal) {
		t.Errorf("%d batches, or they differ", len(first))
	}
	c.Seed = 6
	if bytes.Equal(first[0], payloads(t, c)[0]) {
		t.Error("another seed gives the same stream")
	}
}

// Every offset of a partition comes once and in order, and some records are copies of one in their batch.
func TestRecords(t *testing.T) {
	t.Parallel()
	c := stream.Config{Records: 3000, Partitions: 4, BatchSize: 250, Seed: 1}
	next := make(map[int32]int64)
	records, copies := 0, 0
	for _, payload := range payloads(t, c) {
		event, err := msk.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		keys := make(map[string]string)
		for _, p := range event.Partitions {
			for i := range p.Records {
				r := &p.Records[i]
				if r.Undecodable != nil || r.Topic != stream.Topic || r.Offset != next[r.Partition] {
					t.Fatalf("record %s: %v, want the offset %d", r.Source(), r.Undecodable, next[r.Partition])
				}
				next[r.Partition]++
				records++
				key, err := kafka.HeaderKey(kafka.DefaultKeyHeader)(r)
				if err != nil {
					t.Fatal(err)
				}
				if before, ok := keys[key]; ok {
					copies++
					if before != string(r.Value) {
						t.Fatalf("key %s has two values", key)
					}
				}
				keys[key] = string(r.Value)
			}
		}
	}
	if records != c.Records || len(next) != c.Partitions || copies < 30 || copies > 100 {
		t.Errorf("%d records over %d partitions, %d of them copies; want %d, %d and about 60", records, len(next), copies, c.Records, c.Partitions)
	}
}

func TestRepeatsAndKills(t *testing.T) {
	t.Parallel()
	c := stream.Config{Seed: 9}
	again, n := c.Repeats(0.3), 0
	for range 1000 {
		if again() {
			n++
		}
	}
	if n < 240 || n > 360 {
		t.Errorf("%d of 1,000 batches come again, want about 300", n)
	}
	kills := c.Kills(50, 100)
	slices.Sort(kills)
	if len(slices.Compact(slices.Clone(kills))) != 50 || kills[0] < 1 || kills[49] > 100 || !slices.Equal(kills, sorted(c.Kills(50, 100))) {
		t.Errorf("kills before %v: want 50 different ones of 1 to 100, the same each time", kills)
	}
}

func sorted(s []int) []int { slices.Sort(s); return s }
