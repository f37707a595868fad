//go:build rest

package e2e_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/cli"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
)

const (
	topic      = "payments"
	partitions = 6
	pollers    = 6
	batchSize  = 100
)

// createTopic creates the topic with the tool.
func createTopic(t *testing.T, brokers string) {
	t.Helper()
	var said bytes.Buffer
	args := []string{"topic", "create", topic, "--brokers", brokers, "--partitions", strconv.Itoa(partitions)}
	if code := cli.Main(bounded(t, time.Minute), args, cli.Streams{Err: &said}, "test"); code != 0 {
		t.Fatalf("exit status %d: %s", code, &said)
	}
}

// A port in use is reported at once, and nothing is started.
func TestKafkaOnATakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "scripts/kafka.sh"), "run",
		port).CombinedOutput()
	if want := "kafka: port " + port + " of 127.0.0.1 is taken"; err == nil ||
		!strings.HasPrefix(string(out), want) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s; want one line, %q", err, out, want)
	}
}

// options returns the options of a run with the broker and the store in this process. A fifth of the payments
// is sent twice.
func options(t *testing.T, records int, faults local.Faults) local.Options {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "function.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	o := local.Options{
		ESM: esm.DefaultConfig(), Partitions: partitions, Produce: records, Copies: 0.2,
		Function: "'" + handler + "'", FunctionName: "payments", Store: local.StoreFake,
		// Kills must not use up the attempts of a record, and a process on a busy machine must not lose its
		// leases.
		Env:    []string{"IDEMSK_MAX_ATTEMPTS=25", "IDEMSK_ORDER=key", "IDEMSK_LEASE=5s"},
		Faults: faults, Seed: 20261121, UntilDrained: true, Prove: true, Log: log,
		Say: func(line string) { t.Log(line) },
		AWS: func(context.Context) (aws.Config, error) {
			t.Error("nothing of AWS is asked for")
			return aws.Config{}, nil
		},
	}
	o.ESM.Topics, o.ESM.ConsumerGroup = []string{topic}, "e2e"
	o.ESM.Pollers, o.ESM.BatchSize, o.ESM.FunctionResponseTypes = pollers, batchSize,
		[]string{esm.ReportBatchItemFailures}
	return o
}

// torture returns options for a real Kafka and DynamoDB Local.
func torture(t *testing.T, records int, faults local.Faults) local.Options {
	t.Helper()
	o := options(t, records, faults)
	o.Brokers = []string{testkit.Run(t, serverproc.StartScript, serverproc.Kafka).Addr()}
	createTopic(t, o.Brokers[0])
	o.Store = testkit.Run(t, serverproc.StartScript, serverproc.DynamoDBLocal).Addr()
	// On a busy machine its first answer takes longer than idemsk local waits.
	db := dynamodb.NewFromConfig(awstest.Config(t, o.Store))
	if _, err := db.ListTables(bounded(t, 2*time.Minute), &dynamodb.ListTablesInput{}); err != nil {
		t.Fatal(err)
	}
	return o
}

// finish runs the options. All records must be delivered, and the verification must succeed.
func finish(t *testing.T, o local.Options, within time.Duration) *local.Report {
	t.Helper()
	report, err := local.Run(bounded(t, within), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + report.Text())
	for _, problem := range report.Verified.Problems {
		t.Error(problem)
	}
	if report.Lag() != 0 || report.Done != o.Produce || report.Verified.Records != o.Produce {
		t.Errorf("lag %d, %d records done, %d in the topic; want 0, and %d", report.Lag(), report.Done,
			report.Verified.Records, o.Produce)
	}
	if report.Delivered <= o.Produce || report.Redelivered == 0 || report.Concurrent == 0 ||
		report.Outcomes.Replayed == 0 {
		t.Errorf("the run had no duplicates: %+v", report.Counts)
	}
	if copies := o.Produce - report.Verified.Payments - report.Messages; copies < o.Produce/6 {
		t.Errorf("%d records that the producer sent twice; want a fifth", copies)
	}
	return report
}

// On a real Kafka, with redelivered batches, concurrent batches and killed processes, nothing is lost and the
// ledger is exact, because bookings commit with their completions. There is no audit.
func TestExactlyOnce(t *testing.T) {
	records := testkit.Size(t, 2500, 50_000)
	o := torture(t, records, local.Faults{Duplicate: 0.3, Concurrent: 0.3, Kill: 0.2})
	report := finish(t, o, 20*time.Minute)
	const recordsForAKill = 2500 // 25 batches, 5 of them with a process that is killed
	if len(report.Verified.Off) != 0 || report.Verified.Audited ||
		len(report.Kills) < records/recordsForAKill {
		t.Errorf("off by %v after %d kills; want nothing, after %d at least, and without an audit",
			report.Verified.Off, len(report.Kills), records/recordsForAKill)
	}
}

// In plain mode, a booking is repeated only after a kill between the booking and its completion. The run
// names each.
func TestKills(t *testing.T) {
	o := torture(t, testkit.Size(t, 2000, 10_000), local.Faults{Duplicate: 0.3, Concurrent: 0.3, Kill: 0.3})
	// A process that is slow for longer than a lease would explain a repetition too, and so would a booking
	// that the deadline of its invocation cancels, which it may have waited for behind leases.
	o.Env = append(o.Env, "IDEMSK_LEDGER=plain", "IDEMSK_LEASE=15s")
	o.ESM.Timeout = 5 * time.Minute
	report := finish(t, o, 10*time.Minute)
	if len(report.Kills) == 0 {
		t.Error("no process was killed")
	}
	for _, r := range report.Verified.Repeats {
		t.Logf("%s: attempt %d, token %d, in invocation %s of %s, killed at %s", r.Key, r.Attempt, r.Token,
			r.Executor, r.Kill.During, r.Kill.At.Format(time.TimeOnly+".000"))
	}
}
