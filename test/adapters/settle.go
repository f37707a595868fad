package adapters

import (
	"context"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// SettleAll processes records by partition until all are settled, so that their offsets can be committed. A
// record that fails is tried again, and becomes a dead letter after its last attempt (kafka.Config.DeadLetters).
// The error is that of ctx.
func SettleAll(ctx context.Context, processor *kafka.Processor, partitions [][]kafka.Record) error {
	for {
		var left [][]kafka.Record
		for _, messages := range processor.Run(ctx, "", partitions).Partitions {
			var again []kafka.Record
			for i := range messages {
				if !messages[i].Settled() {
					again = append(again, *messages[i].Record)
				}
			}
			if len(again) > 0 {
				left = append(left, again)
			}
		}
		if len(left) == 0 {
			return nil
		}
		partitions = left
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}
