//go:build rest

package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/kafka/consumer"
)

// On Apache Kafka, which answers other errors than kfake: a topic that is deleted is waited for, with an
// alarm, while another topic is read. When it is created again, Run ends, and the next process reads all of
// it.
func TestDeletedTopicOfApacheKafka(t *testing.T) {
	server := testkit.Run(t, serverproc.StartScript, serverproc.Kafka)
	for _, name := range []string{"cooperative", "incremental"} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{T: t, brokers: []string{server.Addr()}, store: memstore.New(memstore.Config{BatchSize: 25}),
				calls: make(map[string]int), letters: new(letters)}
			f.recreate(1)
			other := "refunds-" + name
			f.createTopic(other)
			f.produce(0, 5, 0)
			both := func(cfg *consumer.Config) {
				cfg.Topics, cfg.CommitInterval = []string{topic, other}, 100*time.Millisecond
			}
			c := f.start(protocols[name], both)
			f.until("the records are committed", func() bool { return f.calledOnce(5) && f.fetchOffsets(1)[0] == 5 })
			f.deleteTopic(topic)
			f.until("there is an alarm", func() bool { return f.logged("the topic was deleted", "payments", "alarm=true") > 0 })
			refund := payment(0, "refund of "+name)
			refund.Topic = other
			f.write(refund)
			f.until("the other topic is read", func() bool { n, _ := f.called(); return n == 6 })
			f.createTopic(topic)
			f.produce(100, 9, 0)
			c.fails("an operator must act", `the topic "payments" was deleted and created again`)
			c = f.start(protocols[name], both)
			f.until("the new records are committed", func() bool { return f.handledKeys(15) && f.fetchOffsets(1)[0] == 9 })
			c.mustEnd()
		})
	}
}

// createTopic creates a topic with a partition, if there is none.
func (f *fixture) createTopic(name string) {
	f.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, one)
	f.admin(func(c *kgo.Client) error { _, err := req.RequestWith(f.Context(), c); return err })
}

func (f *fixture) deleteTopic(name string) {
	f.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = &name
	req.Topics, req.TopicNames = append(req.Topics, one), []string{name}
	f.admin(func(c *kgo.Client) error { _, err := req.RequestWith(f.Context(), c); return err })
}

func (f *fixture) admin(request func(c *kgo.Client) error) {
	f.Helper()
	c := f.client()
	defer c.Close()
	if err := request(c); err != nil {
		f.Fatal(err)
	}
}
