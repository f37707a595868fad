//go:build rest

package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/tally"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/lambda/handler/internal/ledger"
)

// recordsVariable is the environment variable with the number of records: a short run by default. make soak
// sets it for a long one.
const (
	recordsVariable = "SOAK_RECORDS"
	shortRecords    = 3_000
)

const (
	batchSize  = 100
	partitions = 4
	accounts   = 500
	// records after which the keys are checked and deleted, so that the fake does not grow.
	roundSize = 100 * batchSize
	books     = "idemsk-ledger"
	samples   = 20               // of the process, between two batches
	interval  = 30 * time.Second // of the reports
)

// The function's own program books each payment once, and does not grow.
func TestSoak(t *testing.T) {
	records := testkit.Number(t, recordsVariable, shortRecords, batchSize)
	program := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags",
		"-s -w", "-o", program, "github.com/idemsk/idemsk/lambda/handler")
	// as in scripts/build.sh, whose compiled packages are used
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if grown := soak(t, records, program); len(grown) > 0 {
		t.Errorf("the process grows:\n%s", strings.Join(grown, "\n"))
	}
}

// The test finds leaks. RSS is not asked for: the race detector's own memory can hide them.
func TestLeaksAreFound(t *testing.T) {
	grown := strings.Join(soak(t, shortRecords, os.Args[0], leakVariable+"=on"), "\n")
	for _, of := range series[1:] {
		if !strings.Contains(grown, of.name) {
			t.Errorf("the leak of %s was not found, only:\n%s", of.name, grown)
		}
	}
}

// run is a run of the test.
type run struct {
	*testing.T
	random   *rand.Rand
	db       *dynamodb.Client
	function *runtimeapi.Function
	watch    watch
	samples  []sample
	begun    time.Time
	reported time.Time

	records    int // distinct ones
	deliveries int // of batches
	failed     int // of these
	last       []byte
	amounts    map[string]int64 // that must be booked
	bookings   map[string]int
}

// soak delivers records to a program with faults, checks that each was booked once, and returns how the
// process has grown.
func soak(t *testing.T, records int, program string, env ...string) (grown []string) {
	t.Helper()
	seed := tally.NewSeed(t)
	r := &run{T: t, random: seed.Rand("deliveries"), amounts: make(map[string]int64),
		bookings: make(map[string]int),
		watch:    watch{heard: make(chan struct{})}, begun: time.Now(), reported: time.Now(),
	}
	cuts := faults{random: seed.Rand("cut replies")}
	server := testkit.Serve(t, dynamofake.New, dynamofake.Config{Fault: cuts.next})
	r.db = dynamodb.NewFromConfig(awstest.Config(t, server.URL()))
	awstest.CreateTable(t, r.db, books, "account")
	r.createKeys()
	var err error
	r.function, err = runtimeapi.Start(t.Context(), runtimeapi.Config{
		Command: []string{program}, Name: "ledger", Timeout: time.Minute, InitTimeout: time.Minute,
		Stderr: r.watch.line,
		Env: append(env, "AWS_ENDPOINT_URL_DYNAMODB="+server.URL(), "AWS_ACCESS_KEY_ID=test",
			"AWS_SECRET_ACCESS_KEY=test", "IDEMSK_SIMULATE=on",
			"IDEMSK_LEDGER=atomic", "IDEMSK_KEY=json:$.paymentId", "IDEMSK_LOG_LEVEL=error",
			"GODEBUG="+traces),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.function.Close(context.Background()) })
	for inRound := 0; r.records < records; {
		r.deliver(r.batch())
		if r.records >= len(r.samples)*records/samples {
			r.samples = append(r.samples, r.watch.take(t, r.function.PID()))
		}
		if inRound += batchSize; inRound >= roundSize || r.records >= records {
			r.checkKeys(inRound)
			inRound = 0
		}
		if time.Since(r.reported) > interval || r.records >= records {
			r.report(cuts.total())
		}
	}
	r.checkBooks()
	if n := r.function.Starts(); n != 1 {
		t.Errorf("%d processes were started; want 1", n)
	}
	return growth(r.samples)
}

// batch makes an event of new payments. One in a hundred records is a duplicate of the one before, and one in
// a thousand fails at first, so that its batch is delivered again.
func (r *run) batch() []byte {
	var messages []mskevent.Message
	for i := range batchSize {
		p := ledger.Payment{
			PaymentID: fmt.Sprint("p-", r.records), Account: fmt.Sprint("acc-", r.random.IntN(accounts)),
			Amount: r.random.Int64N(100_000) + 1, Currency: "EUR",
		}
		if r.random.IntN(1000) == 0 {
			p.Simulate = "retry:1"
		}
		r.amounts[ledger.AccountID(p.Account, p.Currency)] += p.Amount
		r.bookings[ledger.AccountID(p.Account, p.Currency)]++
		value, err := json.Marshal(p)
		if err != nil {
			r.Fatal(err)
		}
		m := mskevent.Message{Topic: "payments", Partition: int32(i % partitions),
			Offset: int64(r.records * 2), Timestamp: 1, Value: value}
		messages = append(messages, m)
		if r.random.IntN(100) == 0 {
			m.Offset++
			messages = append(messages, m)
		}
		r.records++
	}
	return mskevent.MSK("arn").Messages(messages...)
}

// deliver delivers a batch until it succeeds, one in ten twice, and at times the batch before it again.
func (r *run) deliver(event []byte) {
	events := [][]byte{event}
	if r.random.IntN(10) == 0 {
		events = append(events, event)
	}
	if r.last != nil && r.random.IntN(20) == 0 {
		events = append(events, r.last)
	}
	r.last = event
	for _, e := range events {
		for tries := 1; ; tries++ {
			_, err := r.function.Invoke(r.Context(), e)
			r.deliveries++
			if err == nil {
				break
			}
			r.failed++
			var failed *runtimeapi.FunctionError
			if !errors.As(err, &failed) || tries > 20 {
				r.Fatalf("delivery %d of a batch: %v", tries, err)
			}
		}
	}
}

func (r *run) createKeys() {
	if err := dynamostore.CreateTable(r.Context(), r.db, dynamostore.DefaultTable); err != nil {
		r.Fatal(err)
	}
}

// checkKeys checks that each key of the last records has completed, and deletes all keys.
func (r *run) checkKeys(want int) {
	r.Helper()
	table, completed := aws.String(dynamostore.DefaultTable), 0
	r.scan(*table, func(item map[string]types.AttributeValue) {
		if text(item["status"]) == "COMPLETED" {
			completed++
			return
		}
		r.Errorf("key %v is %v", item["idempotency_key"], item["status"])
	})
	if completed != want {
		r.Errorf("%d keys have completed; want %d", completed, want)
	}
	if _, err := r.db.DeleteTable(r.Context(), &dynamodb.DeleteTableInput{TableName: table}); err != nil {
		r.Fatal(err)
	}
	r.createKeys()
	r.last = nil
}

// checkBooks checks the balance of each account, and how often something was booked.
func (r *run) checkBooks() {
	r.Helper()
	found := 0
	r.scan(books, func(item map[string]types.AttributeValue) {
		found++
		id := text(item["account"])
		if got, want := text(item["balance"])+" in "+
			text(item["bookings"]), fmt.Sprintf("%d in %d", r.amounts[id], r.bookings[id]); got != want {
			r.Errorf("account %s has %s bookings; want %s", id, got, want)
		}
	})
	if found != len(r.amounts) {
		r.Errorf("%d accounts; want %d", found, len(r.amounts))
	}
}

func (r *run) scan(table string, each func(map[string]types.AttributeValue)) {
	r.Helper()
	pages := dynamodb.NewScanPaginator(r.db, &dynamodb.ScanInput{TableName: &table})
	for pages.HasMorePages() {
		page, err := pages.NextPage(r.Context())
		if err != nil {
			r.Fatal(err)
		}
		for _, item := range page.Items {
			each(item)
		}
	}
}

func text(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	}
	return fmt.Sprint(v)
}

func (r *run) report(cut int) {
	r.reported = time.Now()
	s := r.watch.take(r.T, r.function.PID())
	r.Logf("%d records, %.0f records/s, %d deliveries, %d failed, %d replies cut; RSS %d KiB, live heap %d MiB, %d goroutines, %d file descriptors",
		r.records, float64(r.records)/time.Since(r.begun).Seconds(), r.deliveries, r.failed, cut, s[0], s[1],
		s[2], s[3])
}

// faults cuts one in 500 replies to writes.
type faults struct {
	mu     sync.Mutex
	random *rand.Rand
	cut    int
}

func (f *faults) next(operation string, _ []byte) (fault dynamofake.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if operation == "TransactWriteItems" || operation == "BatchExecuteStatement" || operation == "PutItem" {
		fault.DropReply = f.random.IntN(500) == 0
	}
	if fault.DropReply {
		f.cut++
	}
	return fault
}

func (f *faults) total() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cut
}
