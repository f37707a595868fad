package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/kafka/consumer"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// oddTimestamps are timestamps as producers set them: in other units than ms, before 1970, none, and without
// any sense.
func oddTimestamps() []int64 {
	now := time.Now()
	return []int64{
		now.UnixMilli(), now.UnixMicro(), now.UnixNano(), now.Unix(), now.UnixNano() + 1, 253_402_300_799_999, -1, -5, 0,
		math.MaxInt64 / 1_000_000, math.MaxInt64/1_000_000 + 1, 5_000_000_000_000_000_000, -2_208_988_800_000,
		now.AddDate(-20, 0, 0).UnixMicro(), now.AddDate(-20, 0, 0).UnixNano(), math.MaxInt64 - 1<<57, 1<<57 - 1,
	}
}

// stamped writes a batch of records without keys with these timestamps to partition 0.
func (f *fixture) stamped(codec kgo.CompressionCodec, timestamps ...int64) {
	f.Helper()
	batch := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: int32(len(timestamps) - 1), FirstTimestamp: timestamps[0],
		MaxTimestamp: slices.Max(timestamps), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(timestamps))}
	for i, ms := range timestamps {
		r := kmsg.Record{TimestampDelta64: ms - timestamps[0], OffsetDelta: int32(i), Value: []byte(`{}`)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		batch.Records = r.AppendTo(batch.Records)
	}
	if compressor, err := kgo.DefaultCompressor(codec); err != nil {
		f.Fatal(err)
	} else if compressor != nil {
		compressed, kind := compressor.Compress(new(bytes.Buffer), batch.Records)
		batch.Records, batch.Attributes = bytes.Clone(compressed), int16(kind)
	}
	const head, uncovered = 49, 21
	batch.Length = int32(head + len(batch.Records))
	batch.CRC = int32(crc32.Checksum(batch.AppendTo(nil)[uncovered:], crc32.MakeTable(crc32.Castagnoli)))
	client := f.client()
	defer client.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	to, at := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	to.Topic, to.TopicID, at.Records = topic, f.cluster.TopicInfo(topic).TopicID, batch.AppendTo(nil)
	to.Partitions = append(to.Partitions, at)
	req.Topics = append(req.Topics, to)
	answer, err := client.Broker(0).RetriableRequest(f.Context(), req)
	if err != nil {
		f.Fatal(err)
	}
	resp, _ := answer.(*kmsg.ProduceResponse)
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		f.Fatal(err)
	}
}

// A handler gets the timestamp that the record has in Kafka. A function on the same topic, whose events have
// it, finds the same keys of places: it replays what the process has handled.
func TestTimestampsAreThoseOfKafka(t *testing.T) {
	for name, write := range map[string]func(f *fixture){
		"a batch each": func(f *fixture) {
			for _, ms := range oddTimestamps() {
				f.stamped(kgo.NoCompression(), ms)
			}
		},
		"one batch": func(f *fixture) { f.stamped(kgo.NoCompression(), oddTimestamps()...) },
		"compressed batches": func(f *fixture) {
			all := oddTimestamps()
			f.stamped(kgo.Lz4Compression(), all[:7]...) // a decoder of zstd would outlive the bubble
			f.stamped(kgo.GzipCompression(), all[7:]...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(f *fixture) {
				write(f)
				got := make(map[int64]int64)
				f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
					f.mu.Lock()
					defer f.mu.Unlock()
					if got[r.Offset] = -1; !r.Timestamp.IsZero() {
						got[r.Offset] = r.Timestamp.UnixMilli()
					}
					return nil, nil
				}
				want := make(map[int64]int64)
				for i, ms := range oddTimestamps() {
					want[int64(i)] = ms
				}
				process := func(cfg *consumer.Config) { cfg.Records.MissingKey = kafka.Process }
				c := f.start(process)
				f.until("all are handled", func() bool { return f.calledOnce(len(want)) && f.offsets()[0] == int64(len(want)) })
				c.mustEnd()
				if !maps.Equal(got, want) {
					f.Errorf("the timestamps are\n%v; want\n%v\n%s", got, want, f.lines)
				}
				f.function(want)
				if !f.calledOnce(len(want)) {
					f.Errorf("the calls are %v; want none again by the function", f.calls)
				}
			})
		})
	}
}

// function handles the records with these timestamps, by offset, as a function of the same consumer.
func (f *fixture) function(timestamps map[int64]int64) {
	f.Helper()
	engine, err := idem.New(f.store, idem.Config{})
	if err != nil {
		f.Fatal(err)
	}
	c, err := msk.New(engine, kafka.HandlerFunc(f.handle), eventsource.Config{Records: kafka.Config{Namespace: group,
		MissingKey: kafka.Process}})
	if err != nil {
		f.Fatal(err)
	}
	var records []map[string]any
	for _, offset := range slices.Sorted(maps.Keys(timestamps)) {
		records = append(records, map[string]any{"topic": topic, "partition": 0, "offset": offset, "timestamp": timestamps[offset],
			"timestampType": "CREATE_TIME", "value": "e30="})
	}
	event, err := json.Marshal(map[string]any{"eventSource": "aws:kafka", "records": map[string]any{topic + "-0": records}})
	if err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	if _, err := c.Invoke(ctx, event); err != nil {
		f.Fatal(err)
	}
}

// If the broker does not answer for the batches, the timestamps of usual units are guessed, and the log says
// so.
func TestTimestampsThatAreGuessed(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		now := time.Now()
		want := []int64{now.UnixMilli(), now.UnixMicro(), now.UnixNano()}
		f.stamped(kgo.NoCompression(), want...)
		f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Err: kerr.UnknownServerError, Count: -1,
			When: func(req kmsg.Request) bool { r, _ := req.(*kmsg.FetchRequest); return r.SessionEpoch == -1 }})
		var got []int64
		f.handler = func(_ context.Context, r kafka.Record) ([]byte, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			got = append(got, r.Timestamp.UnixMilli())
			return nil, nil
		}
		c := f.start(func(cfg *consumer.Config) { cfg.Records.MissingKey = kafka.Process })
		f.until("all are handled", func() bool { return f.calledOnce(len(want)) })
		c.mustEnd()
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || f.logged("they are guessed", fmt.Sprint("offset=", 1)) != 1 {
			f.Errorf("the timestamps are %v; want %v, and a warning:\n%s", got, want, f.lines)
		}
	})
}
