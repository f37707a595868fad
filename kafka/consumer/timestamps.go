package consumer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/internal/kafkatime"
)

// The client does not keep timestamps after the year 2262 (see package kafkatime). The batches have them, and
// are fetched once more for records with such timestamps.

// timestampTimeout is how long the batches of one poll and partition are asked for.
const timestampTimeout = 5 * time.Second

// repairTimestamps gives records the timestamps that they have in Kafka.
func (m *member) repairTimestamps(ctx context.Context, client *kgo.Client, fetches kgo.Fetches) {
	fetches.EachTopic(func(t kgo.FetchTopic) {
		for _, p := range t.Partitions {
			first := slices.IndexFunc(p.Records, kafkatime.Overflowed)
			if first < 0 {
				continue
			}
			rest, err := repair(ctx, client, t, p.Partition, p.Records[first:])
			if err != nil {
				m.seldom.warn(m.log, fmt.Sprint("timestamps ", t.Topic, "-", p.Partition),
					"timestamps after the year 2262 could not be read again: they are guessed", "topic", t.Topic,
					"partition", p.Partition, "offset", rest[0].Offset, "error", err)
			}
			for _, r := range rest {
				if kafkatime.Overflowed(r) {
					r.Timestamp = time.UnixMilli(kafkatime.Millis(r))
				}
			}
		}
	})
}

// repair gives records of a partition the timestamps of their batches. With an error it returns those that
// have them not.
func repair(ctx context.Context, client *kgo.Client, t kgo.FetchTopic, partition int32,
	records []*kgo.Record) (rest []*kgo.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, timestampTimeout)
	defer cancel()
	for len(records) > 0 {
		batches, err := await(ctx, func() ([]byte, error) { return batchesOf(ctx, client, t, partition, records[0].Offset) })
		if err != nil {
			return records, err
		}
		found, err := timestampsIn(batches)
		if err != nil {
			return records, err
		}
		done := 0
		for ; done < len(records); done++ {
			ms, ok := found[records[done].Offset]
			if !ok {
				break
			}
			records[done].Timestamp = time.UnixMilli(ms)
		}
		if done == 0 {
			return records, errors.New("the record is not in the batches of the broker")
		}
		records = records[done:]
	}
	return nil, nil
}

// timestampsIn returns the timestamps of the records in batches, by offset. The last batch may be cut off.
func timestampsIn(batches []byte) (map[int64]int64, error) {
	const head, magic, current = 12, 16, 2 // head: the offset, and the length of what follows
	found := make(map[int64]int64)
	for len(batches) > magic {
		size := head + int(binary.BigEndian.Uint32(batches[8:]))
		if size > len(batches) {
			break
		}
		if batches[magic] != current {
			return nil, errors.New("the batch has a format from before Kafka 0.11")
		}
		var b kmsg.RecordBatch
		if err := b.ReadFrom(batches[:size]); err != nil {
			return nil, err
		}
		if err := addTimestamps(found, &b); err != nil {
			return nil, err
		}
		batches = batches[size:]
	}
	return found, nil
}

func addTimestamps(to map[int64]int64, b *kmsg.RecordBatch) error {
	const codec, appendTime = 7, 1 << 3 // of the attributes
	records := b.Records
	if kind := kgo.CompressionCodecType(b.Attributes & codec); kind != kgo.CodecNone {
		var err error
		if records, err = kgo.DefaultDecompressor().Decompress(records, kind); err != nil {
			return err
		}
	}
	for range b.NumRecords {
		length, n := binary.Varint(records)
		if n <= 0 || length < 0 || length > int64(len(records)-n) {
			return errors.New("a batch is damaged")
		}
		var r kmsg.Record
		if err := r.ReadFrom(records[:n+int(length)]); err != nil {
			return err
		}
		records = records[n+int(length):]
		ms := b.FirstTimestamp + r.TimestampDelta64
		if b.Attributes&appendTime != 0 {
			ms = b.MaxTimestamp
		}
		to[b.FirstOffset+int64(r.OffsetDelta)] = ms
	}
	return nil
}

// batchesOf fetches batches of a partition from that of an offset on.
func batchesOf(ctx context.Context, client *kgo.Client, t kgo.FetchTopic, partition int32, offset int64) ([]byte,
	error) {
	leader, _, err := client.PartitionLeader(t.Topic, partition)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, fetchPartitionBytes
	req.SessionEpoch = -1 // no session
	topic, of := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	topic.Topic, topic.TopicID = t.Topic, t.TopicID
	of.Partition, of.FetchOffset, of.PartitionMaxBytes = partition, offset, fetchPartitionBytes
	topic.Partitions = append(topic.Partitions, of)
	req.Topics = append(req.Topics, topic)
	answer, err := client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp, _ := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			return p.RecordBatches, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	return nil, errors.New("the answer of the broker is empty")
}
