package kafka_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/kafka"
)

// The records of a partition that the topic gains are handled from the first one, although the process
// notices it later, and also if it ends before it has settled one.
func TestNewPartitionIsReadFromItsStart(t *testing.T) {
	inBubble(t, 1, func(f *fixture) {
		slow := true
		var done atomic.Int32
		f.handler = func(ctx context.Context, _ kafka.Record) ([]byte, error) {
			if slow {
				<-ctx.Done()
				return nil, errHandler
			}
			done.Add(1)
			return nil, nil
		}
		c := f.start()
		f.until("the process is ready", func() bool { return c.Ready() == nil })
		<-time.After(time.Minute)
		f.addPartitions(2)
		f.produce(0, 3, 1)
		f.until("a handler has begun", func() bool { n, _ := f.called(); return n > 0 })
		c.mustEnd()

		slow = false
		c = f.start()
		f.until("its records are committed", func() bool { return f.offsets()[1] == 3 })
		c.mustEnd()
		if done.Load() != 3 {
			f.Errorf("%d records were handled; want 3", done.Load())
		}
	})
}

// addPartitions adds partitions to the topic, until it has n.
func (f *fixture) addPartitions(n int32) {
	client := f.client()
	defer client.Close()
	req := kmsg.NewPtrCreatePartitionsRequest()
	one := kmsg.NewCreatePartitionsRequestTopic()
	one.Topic, one.Count = topic, n
	req.Topics, req.TimeoutMillis = append(req.Topics, one), 5000
	resp, err := req.RequestWith(f.Context(), client)
	if err != nil || resp.Topics[0].ErrorCode != 0 {
		f.Fatal(err, resp)
	}
}
