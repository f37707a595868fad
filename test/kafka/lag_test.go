package kafka_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// The lag of a topic of laggingTopic.
const (
	lagPartitions = 12
	lagRecords    = 10_000_000
	lagValue      = 1 << 10 // bytes
	lagBatch      = 500     // records
)

// laggingTopic returns a cluster whose topic has lagRecords records, with 1,000 Kafka keys. The brokers keep
// none of them: the answer to a fetch is the same batch of each partition at other offsets.
func laggingTopic(tb testing.TB) *kfake.Cluster {
	tb.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(lagPartitions, topic))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cluster.Close)
	batch := lagBatchBytes()
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		fetch, _ := req.(*kmsg.FetchRequest)
		resp, _ := fetch.ResponseKind().(*kmsg.FetchResponse)
		for i := range fetch.Topics {
			from := &fetch.Topics[i]
			to := kmsg.NewFetchResponseTopic()
			to.Topic, to.TopicID = from.Topic, from.TopicID
			for _, p := range from.Partitions {
				to.Partitions = append(to.Partitions, lagFetched(p, batch))
			}
			resp.Topics = append(resp.Topics, to)
		}
		return resp, nil, true
	})
	return cluster
}

// lagFetched returns the batch that begins at the offset of a fetch.
func lagFetched(from kmsg.FetchRequestTopicPartition, batch []byte) kmsg.FetchResponseTopicPartition {
	const end = lagRecords / lagPartitions
	to := kmsg.NewFetchResponseTopicPartition()
	to.Partition, to.HighWatermark, to.LastStableOffset, to.LogStartOffset = from.Partition, end, end, 0
	if from.FetchOffset < end {
		to.RecordBatches = append([]byte(nil), batch...)
		// the checksum does not contain it
		binary.BigEndian.PutUint64(to.RecordBatches, uint64(from.FetchOffset))
	}
	return to
}

// lagBatchBytes returns an encoded batch of records of lagValue random bytes.
func lagBatchBytes() []byte {
	var records []byte
	random := rand.NewChaCha8([32]byte{})
	for i := range lagBatch {
		r := kmsg.Record{OffsetDelta: int32(i), Key: binary.BigEndian.AppendUint64(nil, uint64(i)),
			Value: make([]byte, lagValue)}
		_, _ = random.Read(r.Value) // never fails
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	// the bytes of the header after the length, and those before the attributes
	const head, uncovered = 49, 21
	b := kmsg.RecordBatch{
		Length: int32(head + len(records)), Magic: 2, LastOffsetDelta: lagBatch - 1, FirstTimestamp: 1,
		MaxTimestamp: 1,
		ProducerID:   -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: lagBatch, Records: records,
	}
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[uncovered:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// A consumer whose handlers do not return reads its windows full, and no further: what it keeps in memory is
// bounded by the bytes of the windows and of the fetches, whatever the lag.
func TestMemoryIsBoundedAtALag(t *testing.T) {
	const (
		windows = 32 << 20
		fetches = 64 << 20 // see fetchBytes and maxFetches in package consumer
		batches = lagPartitions * lagBatch * (2*lagValue + 200)
	)
	cluster := laggingTopic(t)
	engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	handling := make(chan struct{}, 100)
	c, err := consumer.New(engine, kafka.HandlerFunc(func(ctx context.Context, _ kafka.Record) ([]byte, error) {
		handling <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}), consumer.Config{
		Brokers: cluster.ListenAddrs(), Topics: []string{topic}, Group: group, MaxBytes: windows,
		DrainTimeout: time.Second, Records: kafka.Config{Key: kafka.OffsetKey},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-handling
	var bytes int64
	for full, limit := 0, time.After(time.Minute); full < lagPartitions; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			t.Fatalf("%d of %d windows are full after a minute", full, lagPartitions)
		}
		bytes, full = 0, 0
		for _, p := range c.Stats().Partitions {
			bytes += p.Bytes
			if p.Paused {
				full++
			}
		}
	}
	if most := int64(windows + 2*lagValue + 200); bytes > most { // and a record
		t.Errorf("the windows have %d bytes; want at most %d", bytes, most)
	}
	if grown, most := heap()-before, int64(windows+batches+fetches); grown > most {
		t.Errorf("the heap has grown by %d bytes; want at most %d", grown, most)
	}
	stop()
	running.Wait()
}

// heap returns the bytes of the objects on the heap that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
