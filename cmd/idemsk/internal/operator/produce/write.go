package produce

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Write writes records to a topic. Kafka's partitioner selects the partitions. It calls wrote for each
// written record, one at a time. It stops after the first error, which names the line, and returns the number
// of records that all in-sync replicas have.
func Write(ctx context.Context, client *kgo.Client, topic string, lines iter.Seq2[Line, error],
	wrote func(r *kgo.Record)) (n int, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	for l, err := range lines {
		if err != nil {
			stop(err)
		}
		if ctx.Err() != nil {
			break
		}
		l.Record.Topic = topic
		client.Produce(ctx, l.Record, func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				stop(fmt.Errorf("line %d: producing to %s: %w%s", l.Number, topic, err, hint(topic, err)))
				return
			}
			n++
			wrote(r)
		})
	}
	// ends at the client's delivery timeout at the latest
	flushErr := client.Flush(context.WithoutCancel(ctx))
	mu.Lock()
	defer mu.Unlock()
	if cause := context.Cause(ctx); cause != nil {
		return n, cause
	}
	return n, flushErr
}

func hint(topic string, err error) string {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return " (the cluster has no such topic: idemsk topic create " + topic + ")"
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return " (this user may not write to the topic)"
	case errors.Is(err, kerr.MessageTooLarge):
		return " (raise the topic's max.message.bytes)"
	}
	return ""
}
