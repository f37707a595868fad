//go:build servers

package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

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
