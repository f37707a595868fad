package kafka_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// partitionFaults are the ways in which partition 0 of the topic can fail. Each returns what repairs it.
var partitionFaults = map[string]func(f *fixture) (repair func()){
	"a corrupt batch": func(f *fixture) func() { return f.corrupt(0) },
	"its fetches fail": func(f *fixture) func() {
		return f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: topic, Partitions: []int32{0},
			Err: kerr.UnknownServerError, Count: -1}).Remove
	},
	"it has no leader": func(f *fixture) func() {
		return f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Partitions: []int32{0},
			Err: kerr.LeaderNotAvailable, Count: -1}).Remove
	},
	"the disk of its leader fails": func(f *fixture) func() {
		return f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: topic, Partitions: []int32{0},
			Err: kerr.KafkaStorageError, Count: -1}).Remove
	},
	"its commits are refused": func(f *fixture) func() {
		return f.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: topic, Partitions: []int32{0},
			Err: kerr.InvalidCommitOffsetSize, Count: -1}).Remove
	},
}

// corrupt has a partition answered with a batch that is damaged, until it is repaired. The other partitions
// are answered without records meanwhile, and then as ever.
func (f *fixture) corrupt(partition int32) (repair func()) {
	var repaired atomic.Bool
	f.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fetch, _ := req.(*kmsg.FetchRequest)
		f.cluster.KeepControl()
		if repaired.Load() || len(fetch.Topics) == 0 || fetch.Topics[0].Partitions[0].Partition != partition {
			return nil, nil, false
		}
		resp, _ := fetch.ResponseKind().(*kmsg.FetchResponse)
		of, at := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
		of.Topic, of.TopicID = topic, fetch.Topics[0].TopicID
		at.Partition, at.HighWatermark, at.LastStableOffset = partition, 5, 5
		batch := kmsg.RecordBatch{Length: 49, Magic: 2, CRC: 7, NumRecords: 1}
		at.RecordBatches = batch.AppendTo(nil)
		of.Partitions = append(of.Partitions, at)
		resp.Topics = append(resp.Topics, of)
		return resp, nil, true
	})
	return func() { repaired.Store(true) }
}

// An error of one partition that lasts is an alarm with its offset, at a bounded rate, and a metric, while
// other partitions go on. When it is repaired, both end, and nothing is skipped.
func TestErrorOfAPartitionThatLasts(t *testing.T) {
	for name, fail := range partitionFaults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				c := f.start()
				f.produce(0, 3, 0, 1)
				f.until("both partitions are committed", func() bool { return f.offsets()[0] == 3 && f.offsets()[1] == 3 })
				repair := fail(f)
				f.produce(3, 2, 0, 1)
				<-time.After(25 * time.Second)
				if n := f.logged("alarm=true"); n != 0 {
					f.Errorf("%d alarms after 25 s, want none:\n%s", n, f.lines)
				}
				<-time.After(2 * time.Minute)
				if n := f.logged("alarm=true", "partitions", "payments-0@"); n < 2 || n > 3 || n != f.logged("alarm=true") {
					f.Errorf("%d of %d alarms in 145 s name the partition and the offset, want one each minute:\n%s", n,
						f.logged("alarm=true"), f.lines)
				}
				if p := c.at(0); p.Failing < 2*time.Minute || p.Failing > 150*time.Second || p.Failure == nil {
					f.Errorf("it fails for %v by %v", p.Failing, p.Failure)
				}
				if p := c.at(1); p.Failing != 0 || p.Failure != nil || f.offsets()[1] != 5 {
					f.Errorf("the other partition: %+v; committed %d", p, f.offsets()[1])
				}
				repair()
				f.until("it is committed", func() bool { return f.offsets()[0] == 5 })
				f.until("nothing fails", func() bool { return c.at(0).Failing == 0 })
				f.mu.Lock()
				f.lines = nil
				f.mu.Unlock()
				<-time.After(10 * time.Minute)
				if n := f.logged("alarm=true"); n != 0 {
					f.Errorf("%d alarms after the repair:\n%s", n, f.lines)
				}
				c.mustEnd()
				if !f.calledOnce(10) {
					f.Errorf("the calls are %v; want one for each of 10 records", f.calls)
				}
			})
		})
	}
}

// An error of a partition that passes is no alarm, also if there is another one later.
func TestErrorOfAPartitionThatPasses(t *testing.T) {
	for name, fail := range partitionFaults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(f *fixture) {
				c := f.start()
				f.produce(0, 1, 0, 1)
				f.until("both partitions are committed", func() bool { return f.offsets()[0] == 1 && f.offsets()[1] == 1 })
				for i := range 5 {
					repair := fail(f)
					f.produce(1+i, 1, 0)
					<-time.After(15 * time.Second)
					repair()
					f.until("the record is committed", func() bool { return f.offsets()[0] == int64(2+i) })
					<-time.After(20 * time.Second)
				}
				<-time.After(time.Minute)
				if n := f.logged("alarm=true"); n != 0 || c.at(0).Failing != 0 {
					f.Errorf("%d alarms, failing for %v; want none:\n%s", n, c.at(0).Failing, f.lines)
				}
				c.mustEnd()
			})
		})
	}
}
