package local_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/console"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
)

// An invocation has the outcome of each record, and the history of a key the record. While the mapping is
// disabled, the state says so.
func TestRecordsOfInvocations(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := open(t, func(o *local.Options) { o.Brokers = c.ListenAddrs() })
	p.produce("pay-1", "")
	p.history("pay-1", console.KindCompleted)
	p.produce("pay-1", "")
	h := p.history("pay-1", console.KindReplayed)
	if h.Record == nil || h.Record.KafkaKey != "alice" || h.Record.At == 0 || len(h.Record.Headers) != 1 ||
		h.Record.Headers[0] != (console.Header{Name: "idempotency-key", Value: "pay-1"}) ||
		h.Record.Value != `{"paymentId":"pay-1","account":"alice","amount":5,"currency":"EUR"}` {
		t.Errorf("the record of the key: %+v", h.Record)
	}
	for number, outcome := range map[int]string{1: console.KindCompleted, 2: console.KindReplayed} {
		d := get[console.Detail](p, fmt.Sprintf("api/invocation?number=%d", number))
		if len(d.Outcomes) != 1 || d.Outcomes[0].Outcome != outcome ||
			d.Outcomes[0].Key != "function#payments#pay-1" || d.Outcomes[0].Value != h.Record.Value {
			t.Errorf("invocation %d: %+v; want %s", number, d.Outcomes, outcome)
		}
	}
	p.do(console.Action{Action: console.ActionDisable}, "disabled")
	p.until("an alarm", func(run *console.Run) bool { return len(run.Alarms) == 1 })
	produceBatch(t, c, "pay-2", "pay-2")
	p.do(console.Action{Action: console.ActionEnable}, "enabled")
	p.until("no alarm", func(run *console.Run) bool { return len(run.Alarms) == 0 })
	p.history("pay-2", console.KindCompleted)
	p.until("they are committed", func(run *console.Run) bool { return progress(run).Committed == 4 })
	d := get[console.Detail](p, "api/invocation?number=3")
	if len(d.Outcomes) != 2 || d.Outcomes[0].Outcome != console.KindCompleted ||
		d.Outcomes[1].Outcome != console.InBatchDuplicate || d.Outcomes[1].Key != d.Outcomes[0].Key {
		t.Errorf("two records of one key in a batch: %+v", d.Outcomes)
	}
}

// produceBatch produces payments as one batch of records, so that they arrive together on any machine.
func produceBatch(t *testing.T, c *kfake.Cluster, ids ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("payments"),
		kgo.ManualFlushing())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, id := range ids {
		client.Produce(t.Context(), &kgo.Record{Key: []byte("alice"), Value: []byte(payment(id, "")),
			Headers: []kgo.RecordHeader{{Key: "idempotency-key", Value: []byte(id)}}},
			func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}
