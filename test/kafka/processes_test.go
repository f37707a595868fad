//go:build rest

package kafka_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

// A process is ended by SIGTERM in the middle of a backlog on Apache Kafka, and started again: each handler
// is called once.
func TestCleanRestartCallsNoHandlerAgain(t *testing.T) {
	const records, partitions = 5000, 4
	f := &fixture{T: t, brokers: []string{testkit.Run(t, serverproc.StartScript, serverproc.Kafka).Addr()}}
	f.recreate(partitions)
	var backlog []*kgo.Record
	for i := range records {
		backlog = append(backlog, payment(int32(i%partitions), fmt.Sprint("payment-", i)))
	}
	f.write(backlog...)
	server := testkit.Serve(t, dynamofake.New, dynamofake.Config{Latency: 5 * time.Millisecond})
	if err := dynamostore.CreateTable(t.Context(), dynamodb.NewFromConfig(awstest.Config(t, server.URL())),
		dynamostore.DefaultTable); err != nil {
		t.Fatal(err)
	}
	env := []string{"IDEMSK_STORE=dynamodb", "AWS_ENDPOINT_URL_DYNAMODB=" + server.URL(),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"}

	first := startProcess(t, f.brokers, env...)
	first.endsAfter(records / 5)
	first.exits(0)
	calls := first.handled()
	before := len(calls)
	if before == records {
		t.Error("all records were handled before the restart: it was not in the middle of the backlog")
	}

	second := startProcess(t, f.brokers, env...)
	f.until("everything is committed", func() (all bool) {
		sum := int64(0)
		for _, offset := range f.fetchOffsets(partitions) {
			sum += offset
		}
		return sum == records
	})
	second.Signal(syscall.SIGTERM)
	second.exits(0)
	again := 0
	for key, n := range second.handled() {
		calls[key] += n
	}
	for _, n := range calls {
		again += n - 1
	}
	if len(calls) != records || again != 0 {
		t.Errorf("handlers were called for %d of %d records, and %d times again", len(calls), records, again)
	}
	t.Logf("%d handlers were called before the restart, %d in total, %d again", before, len(calls), again)
}

// A process that is killed costs its partitions the session timeout on Apache Kafka, also if another joins at
// once: the rebalance does not wait for it until the rebalance timeout, which is 60 s here. A static member
// that is started again within its session takes its partition over at once.
func TestKilledMember(t *testing.T) {
	const session, limit = 6 * time.Second, 40 * time.Second
	f := &fixture{T: t, brokers: []string{testkit.Run(t, serverproc.StartScript, serverproc.Kafka).Addr()}}
	f.recreate(2)
	f.produce(0, 1, 0, 1) // waits until the topic exists
	for name, tc := range map[string]struct {
		successor bool     // another process is started at once
		static    []string // its variables, and those of the process that is killed
		least     time.Duration
	}{
		"not replaced":            {false, nil, session / 2},
		"replaced":                {true, nil, session / 2},
		"replaced, static member": {true, []string{"IDEMSK_KAFKA_INSTANCE_ID=a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each has a group of its own
			env := []string{"IDEMSK_KAFKA_SESSION_TIMEOUT=" + session.String(), "IDEMSK_KAFKA_GROUP=" + name}
			first := startProcess(t, f.brokers, slices.Concat(env, tc.static)...)
			first.says("partitions assigned.*\"total\":2")
			second := startProcess(t, f.brokers, env...)
			second.says("partitions assigned.*\"total\":1")
			killed := time.Now()
			first.Signal(syscall.SIGKILL)
			heir := second
			if tc.successor {
				heir = startProcess(t, f.brokers, slices.Concat(env, tc.static)...)
			}
			heir.says("partitions assigned")
			took := time.Since(killed)
			if t.Logf("the partition of the killed process was assigned again after %v",
				took.Round(10*time.Millisecond)); took < tc.least || took > limit {
				t.Errorf("after %v; want %v to %v", took, tc.least, limit)
			}
		})
	}
}
