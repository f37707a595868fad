package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/idem/dynamostore"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/fake/dynamofake"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/lambda/msk"
)

// The variables of the test binary as a function: that it is one, and the folder of its files.
const (
	asFunction = "LAMBDA_TEST_FUNCTION"
	filesOf    = "LAMBDA_TEST_FILES"
)

// runFunction is a Lambda function. The value of a record tells its handler what to do.
func runFunction() {
	time.AfterFunc(5*time.Minute, func() { panic("this test function lives too long") })
	Start(msk.HandlerFunc(func(ctx context.Context, r msk.Record) ([]byte, error) {
		note := fmt.Sprintf("%s %s\n", r.Key, r.Value)
		file := must(os.OpenFile(filepath.Join(os.Getenv(filesOf), "ran"),
			os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))
		must(file.WriteString(note))
		must(0, file.Close())
		switch string(r.Value) {
		case "hang": // although its context ends
			<-make(chan struct{})
		case "until the end":
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case "wait": // until the test has written to the file, although its context ends
			must(os.ReadFile(filepath.Join(os.Getenv(filesOf), "fifo")))
		}
		return nil, nil
	}))
}

// managed is a function on Lambda Managed Instances: its process handles several invocations at once.
type managed struct {
	*testing.T
	*runtimeapi.Function
	files string
	db    *dynamostore.Store

	mu      sync.Mutex
	metrics []map[string]any
}

func startManaged(t *testing.T, timeout time.Duration, env ...string) *managed {
	t.Helper()
	m := &managed{T: t, files: t.TempDir()}
	tables := testkit.Serve(t, dynamofake.New, dynamofake.Config{})
	must(0, tables.CreateTable(dynamofake.Table{Name: "keys", HashKey: dynamostore.AttrKey}))
	m.db = must(dynamostore.New(dynamostore.NewClient(aws.Config{Region: "us-east-1",
		BaseEndpoint: ptr(tables.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("id", "secret", "")}),
		dynamostore.Config{Table: "keys", MaxClockSkew: -1}))
	must(0, syscall.Mkfifo(filepath.Join(m.files, "fifo"), 0o600))
	m.Function = must(runtimeapi.Start(t.Context(), runtimeapi.Config{
		Command: []string{must(os.Executable())}, Name: "payments", Concurrency: 4,
		Timeout: timeout, InitTimeout: time.Minute,
		Env: append([]string{asFunction + "=yes", filesOf + "=" + m.files, "GOCOVERDIR=" + t.TempDir(),
			"GORACE=halt_on_error=1",
			"AWS_ENDPOINT_URL_DYNAMODB=" + tables.URL(), "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=secret",
			"IDEMSK_TABLE=keys", "IDEMSK_KEY=key", "IDEMSK_MAX_CLOCK_SKEW=0s", "IDEMSK_RETRY_DELAY=0s",
			"IDEMSK_FINGERPRINT=none", "IDEMSK_KEY_SCOPE=topic", "IDEMSK_DEADLINE_MARGIN=2s"}, env...),
		Stdout: func(line []byte) {
			var values map[string]any
			if err := json.Unmarshal(line, &values); err != nil {
				t.Errorf("%v in a line of metrics: %s", err, line)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.metrics = append(m.metrics, values)
		},
	}))
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// batch is the event of records of one partition, each KEY or KEY:DO.
func batch(records ...string) []byte {
	messages := make([]mskevent.Message, len(records))
	for i, r := range records {
		key, do, _ := strings.Cut(r, ":")
		messages[i] = mskevent.Message{Topic: "payments", Offset: int64(i), Timestamp: 1, Key: []byte(key),
			Value: []byte(do)}
	}
	return mskevent.MSK("arn").Messages(messages...)
}

// deliver invokes the function in the background.
func (m *managed) deliver(records ...string) <-chan error {
	done := make(chan error, 1)
	go func() {
		result, err := m.Invoke(context.Background(), batch(records...))
		if err == nil && string(result.Payload) != `{"batchItemFailures":[]}` {
			err = errors.New(string(result.Payload))
		}
		done <- err
	}()
	return done
}

// ran returns what the handlers did, in order of the keys.
func (m *managed) ran() []string {
	lines := strings.Split(strings.TrimSpace(string(must(os.ReadFile(filepath.Join(m.files, "ran"))))), "\n")
	slices.Sort(lines)
	return lines
}

func (m *managed) entry(key string) store.Entry {
	return must(m.db.Get(m.Context(), "payments#payments#"+key))
}

func wantFunctionError(t *testing.T, err error, kind, says string) {
	t.Helper()
	var failed *runtimeapi.FunctionError
	if !errors.As(err, &failed) || failed.Type != kind || !strings.Contains(failed.Message, says) {
		t.Errorf("error %v; want a %s with %q", err, kind, says)
	}
}

// An invocation has its own deadline: when the time of one is over, the others and the process go on, and its
// record is delivered again.
func TestDeadlineOfOneOfSeveralInvocations(t *testing.T) {
	t.Parallel()
	m := startManaged(t, 4*time.Second)
	begun := time.Now()
	late := m.deliver("a", "b:until the end", "c")
	others := 0
	for ; len(late) == 0; others++ {
		if err := <-m.deliver(fmt.Sprint("other", others)); err != nil {
			t.Error(err)
		}
	}
	wantFunctionError(t, <-late, "BatchError", "payments-0@1: ")
	if took := time.Since(begun); took < time.Second {
		t.Errorf("its deadline was after %v", took)
	}
	if err := <-m.deliver("a", "b", "c"); err != nil {
		t.Error(err)
	}
	equal(t, "runs", len(m.ran()), others+4)
	equal(t, "processes", m.Starts(), 1)
	executed := 0.0
	for _, line := range m.metrics {
		executed += line["Executed"].(float64)
	}
	equal(t, "lines of metrics", len(m.metrics), others+2)
	equal(t, "executed", int(executed), others+3)
}

// A handler that does not return fails its invocation, and the process takes no more of them. Those that have
// begun end as usual, and the process after them.
func TestOverrunLetsTheOtherInvocationsEnd(t *testing.T) {
	t.Parallel()
	m := startManaged(t, 6*time.Second, "IDEMSK_LEASE=1m")
	begun := time.Now()
	hangs := m.deliver("a:hang")
	for n := 0; time.Since(begun) < time.Second; n++ {
		if err := <-m.deliver(fmt.Sprint("other", n)); err != nil {
			t.Error(err)
		}
	}
	waits := m.deliver("b:wait")
	wantFunctionError(t, <-hangs, "Overrun", "payments-0@0")
	equal(t, "invocations that have ended", len(waits), 0)
	must(0, os.WriteFile(filepath.Join(m.files, "fifo"), []byte("go on"), 0o600))
	if err := <-waits; err != nil {
		t.Errorf("the invocation that had begun: %v", err)
	}
	equal(t, "the key of the overrun", m.entry("a").Status, store.StatusStarted)
	for m.Starts() == 1 { // the process may take some more before it ends
		<-m.deliver("c", "b")
	}
	if err := <-m.deliver("c", "b"); err != nil {
		t.Error(err)
	}
	ofOthers := func(s string) bool { return !strings.HasPrefix(s, "b ") }
	equal(t, "runs of b", len(slices.DeleteFunc(m.ran(), ofOthers)), 1)
}

// If the other invocations take too long, the process ends with them.
func TestOverrunEndsTheProcessWithItsInvocations(t *testing.T) {
	t.Parallel()
	m := startManaged(t, 6*time.Second, "IDEMSK_LEASE=3s")
	begun := time.Now()
	hangs := m.deliver("a:hang")
	for n := 0; time.Since(begun) < 4*time.Second; n++ {
		if err := <-m.deliver(fmt.Sprint("other", n)); err != nil {
			t.Error(err)
		}
	}
	waits := m.deliver("b:wait")
	wantFunctionError(t, <-hangs, "Overrun", "payments-0@0")
	var crash *runtimeapi.CrashError
	if err := <-waits; !errors.As(err, &crash) || crash.ExitCode != 1 ||
		!strings.Contains(strings.Join(crash.Output, "\n"), "the process ends with its invocations") {
		t.Errorf("error %v; want that of the end of the process", err)
	}
	equal(t, "the key", m.entry("a").Status, store.StatusStarted)
}

// A process that handles several invocations at once ends before the lease of a handler that does not return,
// whatever the phase of the heartbeat. One that handles one at a time ends at once, by its runtime.
func TestProcessEndsBeforeTheLeaseOfAnOverrun(t *testing.T) {
	for _, invocations := range []int{1, 4} {
		for timeout := 50 * time.Second; timeout < time.Minute; timeout += 777 * time.Millisecond {
			t.Run(fmt.Sprint(invocations, " at once, ", timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { overrunOf(t, invocations, timeout) })
			})
		}
	}
}

func overrunOf(t *testing.T, invocations int, timeout time.Duration) {
	t.Helper()
	gate, keys := make(chan struct{}), memstore.New(memstore.Config{})
	build := func(context.Context, *Base) (msk.Handler, error) {
		return msk.HandlerFunc(func(context.Context, msk.Record) ([]byte, error) {
			<-gate
			return nil, nil
		}), nil
	}
	env := vars(map[string]string{"IDEMSK_STORE": "redis", "IDEMSK_STORE_URL": "redis://h"})
	f := must(New(t.Context(), build, env, io.Discard, io.Discard,
		app.WithStore(app.Store{Name: app.StoreRedis, Read: func(*app.Vars, *app.Config) {},
			Open: func(context.Context, *Base) (store.Store, error) { return keys, nil }})))
	equal(t, "invocations at once", f.overrun.invocations, 1)
	f.overrun.invocations = invocations
	exits := make(chan time.Duration, 2)
	f.overrun.exit = func(int) {
		exits <- time.Until(must(keys.Get(context.Background(), "ledger#payments#a")).LeaseUntil)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	_, err := f.Invoke(ctx, []byte(event))
	var response messages.InvokeResponse_Error
	equal(t, "overrun", errors.As(err, &response), true)
	timer := time.NewTimer(time.Minute)
	select {
	case left := <-exits:
		if invocations == 1 || left <= 0 || left > 20*time.Second {
			t.Errorf("it ends %v before the lease", left)
		}
	case <-timer.C:
		equal(t, "invocations at once", invocations, 1)
	}
	equal(t, "further ends", len(exits), 0)
	close(gate)
	synctest.Wait()
	f.Close()
}
