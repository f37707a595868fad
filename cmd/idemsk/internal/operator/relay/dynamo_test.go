//go:build rest

package relay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/dynamooutbox"
)

// The tool relays the stream of an outbox in LocalStack. The events of each key arrive in order.
func TestRelayOfDynamoDB(t *testing.T) {
	t.Parallel()
	endpoint := awstest.LocalStack(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "credited"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := strings.Join(cluster.ListenAddrs(), ",")
	table := awstest.Name("outbox")
	common := []string{"relay", "--outbox-table", table, "--endpoint-url", endpoint, "--region", "us-east-1"}
	if r := clitest.Run(t, append(common, "--migrate")...); r.Code != 0 || !strings.Contains(r.Err, table) {
		t.Fatalf("%+v", r)
	}
	db := dynamostore.NewClient(awstest.Config(t, endpoint))
	keys := "keys-" + table
	if err := dynamostore.CreateTable(t.Context(), db, keys); err != nil {
		t.Fatal(err)
	}
	awstest.DeleteTableAtEnd(t, db, table)
	awstest.DeleteTableAtEnd(t, db, keys)
	publish(t, db, table, keys, 30)
	r := clitest.Run(t, append(common, "--brokers", brokers, "--until-empty")...)
	if r.Code != 0 || !strings.Contains(r.Err, "30 published, 0 parked") {
		t.Fatalf("%+v", r)
	}
	for key, values := range clitest.Consume(t, brokers, 30) {
		if !slices.IsSorted(values) || len(values) != 10 {
			t.Errorf("%s: %v", key, values)
		}
	}
	if r := clitest.Run(t, "relay", "--outbox-table", keys, "--endpoint-url", endpoint,
		"--brokers", brokers); r.Code != 1 || !strings.Contains(r.Err, "has no stream") {
		t.Errorf("a table that is no outbox: %+v", r)
	}
	if r := clitest.Run(t, "relay", "--outbox-table", "no-such-table", "--endpoint-url", endpoint,
		"--brokers", brokers); r.Code != 1 || !strings.Contains(r.Err, "check the name of the table") {
		t.Errorf("no table: %+v", r)
	}
}

// publish publishes n events for three keys by handlers.
func publish(t *testing.T, db *dynamodb.Client, table, keys string, n int) {
	t.Helper()
	store, err := dynamostore.New(db, dynamostore.Config{Table: keys})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := idem.New(store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	box, err := dynamooutbox.New(dynamooutbox.Config{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		out := engine.Do(t.Context(), idem.Task{Key: fmt.Sprint(i),
			Handler: idem.HandlerFunc(func(ctx context.Context) ([]byte, error) {
				return nil, box.Do(ctx, func(ctx context.Context) error {
					return outbox.Publish(ctx,
						outbox.Event{Topic: "credited", Key: fmt.Append(nil, "acc-", i%3),
							Value: fmt.Appendf(nil, "%03d", i)})
				})
			})})
		if out.Kind != idem.Executed {
			t.Fatal(out.Kind, out.Err)
		}
	}
}
