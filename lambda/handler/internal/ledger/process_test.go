package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The function's program as a process, as Lambda runs it.
func TestProcess(t *testing.T) {
	for name, test := range map[string]func(t *testing.T){
		"memory":              processOnMemory,
		"DynamoDB":            processOnDynamoDB,
		"dies":                processThatDies,
		"queue":               processOfAQueue,
		"wrong configuration": processWithWrongConfiguration,
	} {
		t.Run(name, test)
	}
}

// process is a running function, and the lines of metrics that it prints.
type process struct {
	*runtimeapi.Function
	t       *testing.T
	mu      sync.Mutex
	metrics []map[string]any
	log     []string
}

func startProcess(t *testing.T, program string, env map[string]string,
	options ...func(*runtimeapi.Config)) *process {
	t.Helper()
	p := &process{t: t}
	cfg := runtimeapi.Config{
		Command: []string{program}, Name: "ledger", Timeout: 30 * time.Second,
		Stdout: func(line []byte) {
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil {
				t.Errorf("%v on standard output: %s", err, line)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			p.metrics = append(p.metrics, m)
		},
		Stderr: func(line []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.log = append(p.log, string(line))
		},
	}
	for name, value := range env {
		cfg.Env = append(cfg.Env, name+"="+value)
	}
	for _, option := range options {
		option(&cfg)
	}
	f, err := runtimeapi.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(context.Background()) })
	p.Function = f
	return p
}

func event(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../../events", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kafkaEvent is a batch of payments, by the number of their partition, each with offsets from first on.
func kafkaEvent(t *testing.T, first int, partitions map[int][]Payment) []byte {
	t.Helper()
	var messages []mskevent.Message
	for partition, payments := range partitions {
		for i, p := range payments {
			value, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			messages = append(messages, mskevent.Message{Topic: "payments", Partition: int32(partition),
				Offset: int64(first + i), Timestamp: 1, Value: value})
		}
	}
	return mskevent.MSK("arn").Messages(messages...)
}

// settle invokes the function with an event until no record is reported, and returns the number of
// invocations.
func (p *process) settle(name string) (invocations int) {
	p.t.Helper()
	for {
		invocations++
		result, err := p.Invoke(p.t.Context(), event(p.t, name))
		var crash *runtimeapi.CrashError
		var failed *runtimeapi.FunctionError
		switch {
		case err == nil:
			equal(p.t, "answer", string(result.Payload), `{"batchItemFailures":[]}`)
			return invocations
		case invocations > 20, !errors.As(err, &crash) && !errors.As(err, &failed):
			p.t.Fatal(err)
		}
	}
}

// sum adds up a metric over all batches.
func (p *process) sum(metric string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	total := 0.0
	for _, m := range p.metrics {
		n, _ := m[metric].(float64)
		total += n
	}
	return total
}

func processOnMemory(t *testing.T) {
	p := startProcess(t, program, map[string]string{"IDEMSK_STORE": "memory"})
	for range 2 {
		equal(t, "invocations", p.settle("hundred-records-three-partitions"), 1)
	}
	equal(t, "executed", p.sum("Executed"), 100)
	equal(t, "replayed", p.sum("Replayed"), 100)
	equal(t, "processes", p.Starts(), 1)
	_, err := p.Invoke(t.Context(), []byte(`{"Records":[{"eventSource":"aws:s3"}]}`))
	var failed *runtimeapi.FunctionError
	if !errors.As(err, &failed) || !strings.Contains(failed.Message, msk.ErrNotKafka.Error()) {
		t.Errorf("the answer to what is no Kafka event: %v", err)
	}
	equal(t, "invocations after it", p.settle("one-record"), 1)
	equal(t, "processes after it", p.Starts(), 1)
}

func processOnDynamoDB(t *testing.T) {
	db, cfg := startDynamo(t, dynamofake.Config{})
	p := startProcess(t, program, dynamoEnv(db))
	equal(t, "invocations", p.settle("duplicate-in-batch"), 1)
	equal(t, "invocations", p.settle("fails-twice-then-succeeds"), 3)
	balance, bookings := booked(t, cfg, "acc-1/EUR")
	equal(t, "bookings", bookings, "4")
	equal(t, "balance", balance, "5600") // 1000 and 2000, 1250 and 1350
}

func dynamoEnv(db *dynamofake.Server) map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": db.URL(), "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"IDEMSK_SIMULATE": "on",
		"IDEMSK_LEASE":    "300ms", "IDEMSK_MAX_CLOCK_SKEW": "0s",
	}
}

// A payment that kills the process uses up its attempts in the table. Without a dead-letter queue it is
// retried for ever, with an alarm, and later records wait. Earlier records and those of other partitions are
// booked once. (With batching on, the record just before it may be booked again, because its completion may
// not be confirmed when the process dies. See IDEMSK_COMMIT_WINDOW.)
func processThatDies(t *testing.T) {
	db, cfg := startDynamo(t, dynamofake.Config{})
	env := dynamoEnv(db)
	env["IDEMSK_BATCHING"] = "off"
	p := startProcess(t, program, env)
	const deaths = 3
	for range deaths {
		_, err := p.Invoke(t.Context(), event(t, "process-dies"))
		var crash *runtimeapi.CrashError
		if !errors.As(err, &crash) {
			t.Fatalf("error %v; want that of a crash", err)
		}
	}
	equal(t, "processes", p.Starts(), deaths)
	_, bookings := booked(t, cfg, "acc-1/EUR")
	equal(t, "bookings", bookings, "1")
}

// All errors are named, and no work is requested from the Runtime API.
func processWithWrongConfiguration(t *testing.T) {
	asked := make(chan string, 10)
	api := httptest.NewServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer api.Close()
	wrong := map[string]string{
		"IDEMSK_STORE": "mysql", "IDEMSK_LEASE": "30", "IDEMSK_KEY": "json:id",
		"IDEMSK_LEDGER_TABLE": "my ledger", "IDEMSK_SIMULATE": "yes",
		"IDEMSK_NAMESPACE": "", // without Lambda's name for the function
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(api.URL, "http://"),
		"AWS_REGION=eu-central-1"}
	for name, value := range wrong {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v; want status 1", err)
	}
	equal(t, "requests to the Runtime API", len(asked), 0)
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	equal(t, "first line", lines[0], "idemsk: the function can't start:")
	equal(t, "lines", len(lines), len(wrong)+1)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		if !slices.ContainsFunc(lines, func(
			line string) bool {
			return strings.HasPrefix(line, name+` is "`+wrong[name]+`": want `)
		}) {
			t.Errorf("%s is not named in %q", name, lines)
		}
	}
}
