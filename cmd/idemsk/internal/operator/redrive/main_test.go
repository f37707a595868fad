package redrive_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

func TestMain(m *testing.M) { clitest.Main(m, &handler) }

// letter is that of a failed payment.
func letter(offset int64) kafka.DeadLetter {
	return kafka.DeadLetter{
		Topic: "payments", Partition: 1, Offset: offset, Timestamp: 1_700_000_000_000,
		TimestampType: "CREATE_TIME",
		Key:           []byte("acc-1"), Value: []byte(`{"paymentId":"p"}`),
		Headers: []kafka.DeadHeader{{Key: "idempotency-key", Value: []byte("p")},
			{Key: kafka.RedriveHeader, Value: []byte("1")}, {Key: "null"}},
		IdempotencyKey: "ledger#payments#p", Token: 1_700_000_000_123, Attempts: 5,
		Error: store.Failure{Code: store.CodePermanent, Message: "no"},
	}
}

func encode(t *testing.T, l *kafka.DeadLetter) []byte {
	t.Helper()
	body, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// listSource is a source in memory, which notes what becomes of its messages.
type listSource struct {
	bodies [][]byte
	next   int
	done   []string
	closed bool
	err    error // of Done
}

func (s *listSource) Next(context.Context) (*redrive.Message, error) {
	if s.next == len(s.bodies) {
		return nil, io.EOF
	}
	s.next++
	return redrive.NewMessage(string(rune('a'+s.next-1)), s.bodies[s.next-1]), nil
}

func (s *listSource) Begin(context.Context, *redrive.Message) (time.Time, error) {
	return time.Time{}, nil
}

func (s *listSource) Done(_ context.Context, m *redrive.Message) error {
	if s.err == nil {
		s.done = append(s.done, m.Name)
	}
	return s.err
}

func (s *listSource) Close(context.Context) error { s.closed = true; return nil }

// listDestination notes what it gets; it refuses the offsets in refuse.
type listDestination struct {
	sent   []int64
	refuse map[int64]bool
}

func (d *listDestination) String() string { return "a list" }

func (d *listDestination) Send(_ context.Context, l *kafka.DeadLetter) (string, error) {
	if d.refuse[l.Offset] {
		return "", errors.New("refused")
	}
	d.sent = append(d.sent, l.Offset)
	return "list", nil
}

func runAll(t *testing.T, o redrive.Options) (results []redrive.Result, passed redrive.Passed) {
	t.Helper()
	passed, err := redrive.Run(t.Context(), o, func(r redrive.Result) { results = append(results, r) })
	if err != nil {
		t.Fatal(err)
	}
	return results, passed
}

func outcomes(results []redrive.Result) string {
	var all []string
	for _, r := range results {
		all = append(all, r.Message+" "+string(r.Outcome))
	}
	return strings.Join(all, ", ")
}

// newCluster is a Kafka cluster in this process, with a topic of three partitions.
func newCluster(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(3, "payments"),
		kfake.ListenFn(loopback)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func dial(t *testing.T, c *kfake.Cluster) *redrive.Kafka {
	t.Helper()
	k, err := redrive.Dial(t.Context(), redrive.Cluster{Brokers: c.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// newClient is a client of the cluster.
func newClient(t *testing.T, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce puts records at the end of a partition of the topic.
func produce(t *testing.T, c *kfake.Cluster, recs ...*kgo.Record) {
	t.Helper()
	client := newClient(t, c, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err := client.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume reads n records of a partition of the topic.
func consume(t *testing.T, c *kfake.Cluster, partition int32, n int) []*kgo.Record {
	t.Helper()
	client := newClient(t, c, kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{"payments": {partition: kgo.NewOffset().AtStart()}}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var recs []*kgo.Record
	for len(recs) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(recs), n, err)
		}
		recs = append(recs, fetches.Records()...)
	}
	return recs
}
