package consumer

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The largest record is known while it is fetched and not yet returned, and no longer.
func TestLargestRecord(t *testing.T) {
	s := newSizes()
	small, large := &kgo.Record{Value: make([]byte, 100)}, &kgo.Record{Value: make([]byte, 1<<20)}
	s.OnFetchRecordBuffered(small)
	s.OnFetchRecordBuffered(large)
	if n := s.largest(); n < int64(cost(large)) || n > 2*int64(cost(large)) {
		t.Errorf("%d bytes; the large record has %d", n, cost(large))
	}
	s.OnFetchRecordUnbuffered(large, true)
	of := s.largest()
	if of < int64(cost(small)) || of > 2*int64(cost(small)) {
		t.Errorf("%d bytes; the small record has %d", of, cost(small))
	}
	s.OnFetchRecordUnbuffered(small, false)
	if n := s.largest(); n != of {
		t.Errorf("%d bytes without records; want %d as before", n, of)
	}
}

// Fetches are as large as configured if their records have room, and smaller otherwise. Records that grow
// when they are decompressed need more room.
func TestSizesOfFetches(t *testing.T) {
	grows := kgo.FetchBatchMetrics{NumRecords: 1, CompressedBytes: 100 << 10, UncompressedBytes: 1999 << 10}
	for name, test := range map[string]struct {
		all, share       int64
		batch            kgo.FetchBatchMetrics
		fetch, partition int32
	}{
		"defaults": {all: 64 << 20, share: 16 << 20, fetch: fetchBytes,
			partition: fetchPartitionBytes},
		"large":           {all: 1 << 50, share: 1 << 49, fetch: fetchBytes, partition: fetchPartitionBytes},
		"many partitions": {all: 64 << 20, share: 64 << 10, fetch: fetchBytes, partition: 32 << 10},
		"little memory":   {all: 4 << 20, share: 4 << 20, fetch: 512 << 10, partition: fetchPartitionBytes},
		"compressed": {all: 64 << 20, share: 4 << 20, batch: grows, fetch: fetchBytes / 20,
			partition: (2 << 20) / 20},
		"almost no memory": {all: 1, share: 1, batch: grows, fetch: leastFetch, partition: leastFetch},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSizes()
			s.OnFetchBatchRead(kgo.BrokerMetadata{}, "", 0, test.batch)
			fetch, partition := s.fetches(test.all, test.share)
			if fetch != test.fetch || partition != test.partition {
				t.Errorf("%d and %d for a partition; want %d and %d", fetch, partition, test.fetch,
					test.partition)
			}
		})
	}
}
