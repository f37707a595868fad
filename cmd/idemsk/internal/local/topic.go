package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// rereadTimeout is the maximum time without records while the topic is read again.
const rereadTimeout = 30 * time.Second

// reread calls each with the records of the run.
func (r *run) reread(ctx context.Context, partitions []esm.PartitionState,
	each func([]mskevent.Record) error) error {
	for _, e := range r.o.ESM.Events {
		if err := each(e.Records); err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
	}
	if len(r.o.ESM.Events) > 0 {
		return nil
	}
	if r.o.fromQueue() {
		return r.o.sent(each)
	}
	return readTopic(ctx, r.brokers, r.o.Kafka, r.o.ESM.Topics[0], partitions, each)
}

// readTopic reads the topic again, with another client.
func readTopic(ctx context.Context, brokers []string, opts []kgo.Opt, topic string,
	partitions []esm.PartitionState, each func([]mskevent.Record) error) error {
	from, left := make(map[int32]kgo.Offset), make(map[int32]int64)
	for i := range partitions {
		if p := &partitions[i]; p.Begin < p.End {
			from[p.Partition], left[p.Partition] = kgo.NewOffset().At(p.Begin), p.End
		}
	}
	if len(left) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ClientID("idemsk-local-verify"), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}),
	}, opts...)...)
	if err != nil {
		return fmt.Errorf("the Kafka client: %w", err)
	}
	defer client.Close()
	for len(left) > 0 {
		records, err := poll(ctx, client, left)
		if err != nil {
			return fmt.Errorf("rereading %s: %w", topic, err)
		}
		if err := each(records); err != nil {
			return err
		}
	}
	return nil
}

// poll reads some records, and removes partitions from left that are read to their end.
func poll(ctx context.Context, client *kgo.Client, left map[int32]int64) (records []mskevent.Record,
	err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rereadTimeout,
		errors.New("the brokers returned no more records"))
	defer cancel()
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return nil, err
	}
	for _, r := range fetches.Records() {
		end, wanted := left[r.Partition]
		if !wanted || r.Offset >= end {
			continue
		}
		if r.Offset == end-1 {
			delete(left, r.Partition)
		}
		if !r.Attrs.IsControl() {
			records = append(records, esm.NewRecord(r).Record)
		}
	}
	return records, nil
}
