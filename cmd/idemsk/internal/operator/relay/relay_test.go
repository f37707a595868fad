//go:build servers

package relay_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem/pgstore"
	"github.com/idemsk/idemsk/internal/test/pgserver"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

func TestRelay(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "credited"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := strings.Join(cluster.ListenAddrs(), ",")

	if r := clitest.Run(t, "relay", "--store-url", server.URL(), "--brokers", brokers); r.Code != 1 ||
		!strings.Contains(r.Err, "outbox") {
		t.Errorf("without the table: %+v; want exit 1 and what to do", r)
	}
	if r := clitest.Run(t, "relay", "--store-url", server.URL(), "--migrate"); r.Code != 0 ||
		!strings.Contains(r.Err, "1 migration applied to outbox") {
		t.Errorf("%+v", r)
	}
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		event := outbox.Event{Topic: "credited", Key: []byte("acc-1"), Value: fmt.Append(nil, i)}
		if err := pgoutbox.Publish(t.Context(), tx, event); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	r := clitest.Run(t, "relay", "--store-url", server.URL(), "--brokers", brokers, "--until-empty")
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v to see that nothing is left", took)
	}
	if r.Code != 0 || !strings.Contains(r.Err, "3 published") || !strings.Contains(r.Err, "0 to be sent") {
		t.Errorf("%+v; want 3 published, and the end", r)
	}
	if r := clitest.Run(t, "relay", "--store-url", server.URL(), "--brokers", "127.0.0.1:1"); r.Code != 1 ||
		!strings.Contains(r.Err, "127.0.0.1:1 a Kafka broker") {
		t.Errorf("no broker: %+v", r)
	}
}

// Rows that another program has written, and that no Kafka takes or that are hard to store. They are parked,
// and idemsk outbox lists them. The others are sent once.
func TestRelayParksWhatCanNotBeSent(t *testing.T) {
	t.Parallel()
	server := testkit.Run(t, pgserver.Start, pgserver.Config{})
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "credited"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		for _, asked := range req.(*kmsg.MetadataRequest).Topics {
			if asked.Topic != nil && len(*asked.Topic) > math.MaxInt16 { // as Kafka, which closes the connection
				return nil, errors.New("a name has no more bytes"), true
			}
		}
		return nil, nil, false
	})
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	if r := clitest.Run(t, "relay", "--store-url", server.URL(), "--migrate"); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	pool, err := pgstore.NewPool(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), `INSERT INTO outbox (id, aggregatetype, aggregateid, payload)
		SELECT gen_random_uuid(), topic, key, 'bad' FROM (VALUES (repeat('x', 40000), 'a'::bytea), ('a topic', 'a'),
			('missing', (SELECT decode(string_agg(md5(n::text), ''), 'hex') FROM generate_series(1, 250) AS n))) AS e (topic, key)
		UNION ALL SELECT gen_random_uuid(), 'credited', 'a', n::text::bytea FROM generate_series(10, 29) AS n`); err != nil {
		t.Fatal(err)
	}
	if r := clitest.Run(t, "relay", "--store-url", server.URL(), "--brokers", brokers, "--max-attempts", "2",
		"--until-empty"); r.Code != 0 || !strings.Contains(r.Err, "3 parked") {
		t.Errorf("%+v; want 3 parked, and the end", r)
	}
	values := clitest.Consume(t, brokers, 20)["a"]
	if slices.Sort(values); len(values) != 20 || len(slices.Compact(values)) != 20 {
		t.Errorf("%q were sent, want each of 20 once", values)
	}
	listed := clitest.Run(t, "outbox", "--store-url", server.URL())
	for _, want := range []string{"missing", "a topic", "xxxx", "40000 bytes", "create the topic", "3 events parked"} {
		if !strings.Contains(listed.Out+listed.Err, want) {
			t.Errorf("the list has no %q:\n%s%s", want, listed.Out, listed.Err)
		}
	}
	for line := range strings.Lines(listed.Out) {
		if len(line) > 500 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
}
