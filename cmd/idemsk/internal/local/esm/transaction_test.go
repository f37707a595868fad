package esm_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// So are those of transactions that have not ended. The markers of the ends are not delivered.
func TestRecordsOfAbortedTransactionsAreDelivered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for _, end := range []string{"commit", "abort", "none"} {
		client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(topic),
			kgo.TransactionalID(end))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := client.ProduceSync(t.Context(), &kgo.Record{Value: []byte(end)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if end == "none" {
			continue
		}
		if err := client.EndTransaction(t.Context(), kgo.TransactionEndTry(end == "commit")); err != nil {
			t.Fatal(err)
		}
	}
	f := new(reader)
	mustRun(t, config(), parts(c, f.invoker))
	want := make([]string, 0, 3)
	for i, value := range []string{"commit", "abort", "none"} { // each end is a record too
		want = append(want, fmt.Sprintf("%d %q %v %q %v", 2*i, "", "<nil>", value, "<nil>"))
	}
	check(t, "read", f.read, want)
}
