package redrive

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive/foreign"
	"github.com/idemsk/idemsk/internal/kafkatime"
	"github.com/idemsk/idemsk/kafka"
)

// records are the records of a range in Kafka.
type records struct {
	foreign.Range

	client  *kgo.Client
	timeout time.Duration
	next    int64 // the offset after the record that was returned last
	ready   []*kgo.Record
}

var _ Ranges = (*Kafka)(nil)

const recreated = ": the topic was recreated, or --brokers is another cluster"

// Range implements Ranges. What retention has removed of the range is passed over: the caller counts.
func (k *Kafka) Range(ctx context.Context, r foreign.Range) (Letters, error) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	if err := k.open(); err != nil {
		return nil, err
	}
	admin := kadm.NewClient(k.client)
	start, err := listed(r)(admin.ListStartOffsets(ctx, r.Topic))
	if err != nil {
		return nil, err
	}
	end, err := listed(r)(admin.ListEndOffsets(ctx, r.Topic))
	switch {
	case err != nil:
		return nil, err
	case end <= r.Last:
		return nil, fmt.Errorf("the partition ends at %d%s", end, recreated)
	case start > r.Last:
		return nil, fmt.Errorf("retention has removed the records: the partition begins at %d", start)
	}
	out := &records{Range: r, timeout: k.timeout, next: max(r.First, start)}
	place := map[string]map[int32]kgo.Offset{r.Topic: {r.Partition: kgo.NewOffset().At(out.next)}}
	if out.client, err = kgo.NewClient(k.with(
		kgo.ConsumePartitions(place), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepControlRecords(), kgo.MaxConcurrentFetches(1))...); err != nil {
		return nil, fmt.Errorf("the Kafka client: %w", err)
	}
	return out, nil
}

// listed returns a function that returns the offset of the range's partition from offsets of its topic.
func listed(r foreign.Range) func(kadm.ListedOffsets, error) (int64, error) {
	return func(all kadm.ListedOffsets, err error) (int64, error) {
		o, ok := all.Lookup(r.Topic, r.Partition)
		if err == nil {
			err = o.Err
		}
		switch {
		case err != nil:
			return 0, fmt.Errorf("looking for the records: %w%s", err, readHint(err))
		case !ok:
			return 0, fmt.Errorf("the cluster has no such topic or partition")
		}
		return o.Offset, nil
	}
}

// Next implements Letters.
func (r *records) Next(ctx context.Context, about kafka.DeadLetter) (l kafka.DeadLetter, err error) {
	for r.next <= r.Last {
		if len(r.ready) == 0 {
			if err := r.poll(ctx); err != nil {
				return l, err
			}
			continue
		}
		record := r.ready[0]
		r.ready, r.next = r.ready[1:], record.Offset+1
		switch {
		case record.Attrs.IsControl() || record.Offset > r.Last:
			continue
		case record.Offset == r.First && r.Time != 0 && !kafkatime.Is(record, r.Time):
			return l, fmt.Errorf("the record at %d is another one%s", r.First, recreated)
		}
		return letterOf(record, about), nil
	}
	return l, io.EOF
}

func (r *records) poll(ctx context.Context) error {
	const atOnce = 100
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	fetches := r.client.PollRecords(ctx, atOnce)
	if r.ready = fetches.Records(); len(r.ready) > 0 {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("reading from @%d on: no response in time: %w", r.next, context.Cause(ctx))
	}
	for _, e := range fetches.Errors() {
		return fmt.Errorf("reading from @%d on: %w%s", r.next, e.Err, readHint(e.Err))
	}
	return nil
}

// Close implements Letters.
func (r *records) Close() { r.client.Close() }

// letterOf returns the letter of a record whose failure another letter describes.
func letterOf(r *kgo.Record, about kafka.DeadLetter) kafka.DeadLetter {
	l := about
	l.Topic, l.Partition, l.Offset, l.Key, l.Value = r.Topic, r.Partition, r.Offset, r.Key, r.Value
	l.Timestamp, l.TimestampType = max(0, kafkatime.Millis(r)), kafka.TimestampTypeOf(r.Attrs.TimestampType())
	for _, h := range r.Headers {
		l.Headers = append(l.Headers, kafka.DeadHeader(h))
	}
	return l
}
