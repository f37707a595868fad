package consumer

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// sizes is a hook of the client. It counts the records that the client has fetched, and not yet returned from
// a poll, by the length of their cost in bits: the client does not tell how large the next record is. It also
// measures by how much records grow when they are decompressed.
type sizes struct {
	counts [32]atomic.Int64
	last   int64 // the result of largest, used by the goroutine that polls alone

	fetch, partition int32 // the limits of a fetch that are configured

	mu sync.Mutex
	// the bytes of the batches that were fetched lately, and those that their records take in memory
	read, become int64
}

// leastFetch is the smallest limit of a fetch. A broker returns one batch that is larger.
const leastFetch = 16 << 10

// recentBytes is how many bytes of batches measure their growth. Those before count half.
const recentBytes = 16 << 20

func newSizes() *sizes {
	return &sizes{last: fetchPartitionBytes, fetch: fetchBytes, partition: fetchPartitionBytes}
}

// limit takes the limits of fetches that the client was configured with. It is called before the first poll.
func (s *sizes) limit(client *kgo.Client) {
	if n, ok := client.OptValue(kgo.FetchMaxBytes).(int32); ok {
		s.fetch = n
	}
	if n, ok := client.OptValue(kgo.FetchMaxPartitionBytes).(int32); ok {
		s.partition = n
	}
}

// OnFetchRecordBuffered implements kgo.HookFetchRecordBuffered.
func (s *sizes) OnFetchRecordBuffered(r *kgo.Record) { s.counts[bits.Len32(uint32(cost(r)))].Add(1) }

// OnFetchRecordUnbuffered implements kgo.HookFetchRecordUnbuffered.
func (s *sizes) OnFetchRecordUnbuffered(r *kgo.Record, _ bool) {
	s.counts[bits.Len32(uint32(cost(r)))].Add(-1)
}

// OnFetchBatchRead implements kgo.HookFetchBatchRead.
func (s *sizes) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, _ int32, batch kgo.FetchBatchMetrics) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += int64(batch.CompressedBytes)
	s.become += int64(batch.UncompressedBytes) + int64(batch.NumRecords)*recordOverhead
	if s.become > recentBytes {
		s.read, s.become = s.read/2, s.become/2
	}
}

// largest returns a cost that no fetched record exceeds. Without fetched records it is the last one.
func (s *sizes) largest() int64 {
	for length := len(s.counts) - 1; length >= 0; length-- {
		if s.counts[length].Load() > 0 {
			s.last = 1 << length
			break
		}
	}
	return s.last
}

// fetches returns the limits of a fetch and of one partition in it, for windows that take at most all bytes
// together and share bytes each. What is fetched of a partition fits into a half of its window, which is what
// has room when a fetch begins again, and all fetches together into all.
func (s *sizes) fetches(all, share int64) (fetch, partition int32) {
	s.mu.Lock()
	growth := max(1, float64(s.become)/float64(max(1, s.read)))
	s.mu.Unlock()
	fit := func(n int64, most int32) int32 {
		return min(most, max(leastFetch, int32(min(float64(n)/growth, float64(most)))))
	}
	return fit(all/maxFetches, s.fetch), fit(share/2, s.partition)
}
