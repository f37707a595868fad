package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/internal/dynamofake"
	"github.com/idemsk/idemsk/internal/runtimeapi"
)

func TestRun(t *testing.T) {
	t.Parallel()
	o, s := options(t, "metrics")
	o.Produce, o.ESM.Pollers = 500, 2
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Done != 500 || report.Lag() != 0 || report.Delivered != 500 || report.Failed != 0 || report.First == 0 || report.First > report.Took {
		t.Errorf("%+v", report)
	}
	if report.Outcomes.Executed != 2*report.Invocations || report.Reports != report.Invocations {
		t.Errorf("the function's metrics are not counted: %+v", report)
	}
	said := s.String()
	for _, want := range []string{"Broker in this process at 127.0.0.1:", "Produced 500 records to payments by seed 7.", `"table":"idemsk"`} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s in\n%s", want, said)
		}
	}
	for _, want := range []string{"500 done", "executed", "everything is committed after"} {
		if !strings.Contains(report.Text(), want) {
			t.Errorf("no %q in the closing table:\n%s", want, report.Text())
		}
	}
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(said)
	if l, err := net.Listen("tcp", address); err != nil {
		t.Errorf("the broker's port is not free: %v", err)
	} else {
		_ = l.Close()
	}
}

// A function of another's own gets no variable that is the example's: idemsk would take it for a misspelt one.
func TestVariablesOfTheExample(t *testing.T) {
	t.Parallel()
	for _, example := range []bool{false, true} {
		o, s := options(t, "environment")
		o.Brokers, o.Example = newCluster(t, "a").ListenAddrs(), example
		if _, err := run(t, o); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"IDEMSK_SIMULATE=", "IDEMSK_LEDGER_TABLE="} {
			if strings.Contains(s.String(), name) != example {
				t.Errorf("example %t: %s in\n%s", example, name, s)
			}
		}
	}
}

// What runs in this process is at the ports that are asked for, or says that one is taken.
func TestPorts(t *testing.T) {
	t.Parallel()
	o, s := options(t, "noop")
	o.Ports = local.Ports{Broker: freePort(t), DynamoDB: freePort(t), SQS: freePort(t)}
	o.Produce, o.Tables = 10, []string{"accounts=account"}
	tables := ""
	o.Show = func(*local.View) func() { tables = tablesAt(t, o.Ports.DynamoDB); return func() {} }
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	if tables != "accounts idemsk idemsk-audit idemsk-ledger" {
		t.Errorf("the tables are %s", tables)
	}
	for _, want := range []string{
		fmt.Sprintf("Broker in this process at 127.0.0.1:%d, topic payments", o.Ports.Broker),
		fmt.Sprintf("DynamoDB in this process at http://127.0.0.1:%d, tables idemsk and idemsk-ledger: idemsk list --endpoint-url http://127.0.0.1:%[1]d\n", o.Ports.DynamoDB),
		fmt.Sprintf("SQS in this process at http://127.0.0.1:%d, dead letters in http://127.0.0.1:%[1]d/000000000000/idemsk-dead-letters.\n", o.Ports.SQS),
		"the failures with \"simulated failure\" are generated",
	} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("not said: %s in\n%s", want, s)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for says, ports := range map[string]local.Ports{"(--broker-port)": {Broker: port}, "(--dynamodb-port)": {DynamoDB: port}, "(--sqs-port)": {SQS: port}} {
		o.Ports = ports
		if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "address already in use") {
			t.Errorf("%v; want an error that says %s", err, says)
		}
	}
}

// tablesAt asks a DynamoDB on this machine for its tables.
func tablesAt(t *testing.T, port int) string {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(fmt.Sprintf("http://127.0.0.1:%d", port)),
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	out, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil {
		t.Error(err)
		return ""
	}
	return strings.Join(out.TableNames, " ")
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A function that is to publish into a table that is not there would fail for each record, again and again.
func TestOutboxWithoutItsTable(t *testing.T) {
	t.Parallel()
	db, err := dynamofake.New(dynamofake.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	o, _ := options(t, "noop")
	o.Store, o.Env = db.URL(), append(o.Env, "IDEMSK_OUTBOX=on")
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "idemsk relay --migrate --outbox-table idemsk-outbox --endpoint-url "+db.URL()) {
		t.Errorf("%v; want an error that says what makes the table", err)
	}
	if err := db.CreateTable(dynamofake.Table{Name: "events", HashKey: "aggregate"}); err != nil {
		t.Fatal(err)
	}
	o.Env = append(o.Env, "IDEMSK_OUTBOX_TABLE=events")
	if _, err := run(t, o); err != nil {
		t.Error(err)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	o, s := options(t, "slow")
	o.Produce, o.ESM.Pollers, o.ESM.BatchSize = 400, 2, 10
	o.Faults = local.Faults{Duplicate: 0.3, Kill: 0.2, Concurrent: 0.2, Slow: time.Millisecond}
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Lag() != 0 || report.Done != 400 || report.Delivered <= 400 || report.Redelivered == 0 || report.Concurrent == 0 || len(report.Kills) == 0 ||
		report.Failed < len(report.Kills) {
		t.Errorf("%+v", report)
	}
	for _, k := range report.Kills {
		if len(k.Records) == 0 || len(k.Records) > 10 || !strings.HasPrefix(k.Records[0], "payments-") || !k.Begun.Before(k.At) {
			t.Errorf("a kill without what it hit: %+v", k)
		}
	}
	if !strings.Contains(s.String(), "Faults by seed 7.") || !strings.Contains(report.Text(), fmt.Sprintf("%d failed, %d of them killed on purpose", report.Failed, report.Injected)) {
		t.Errorf("%s\n%s", s, report.Text())
	}
}

func TestWhatCannotRun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		mode  string
		spoil func(o *local.Options)
		says  string
		is    error
	}{
		"dies at once":    {"dies", nil, "no configuration", runtimeapi.ErrInitExit},
		"never asks":      {"mute", func(o *local.Options) { o.InitTimeout = 300 * time.Millisecond }, "did not ask for work", runtimeapi.ErrInitTimeout},
		"not there":       {"", func(o *local.Options) { o.Function = "./nowhere" }, "there is no file", os.ErrNotExist},
		"answers garbage": {"garbage", func(o *local.Options) { o.ESM.FunctionResponseTypes = []string{esm.ReportBatchItemFailures} }, "the function's first 3 answers can't be read", nil},
		"no endpoint":     {"", func(o *local.Options) { o.Function, o.Env, o.Invoke = "", nil, "http://127.0.0.1:1" }, "no Lambda endpoint answers at http://127.0.0.1:1", nil},
		"no broker":       {"", func(o *local.Options) { o.Brokers = []string{"127.0.0.1:1"} }, "no Kafka broker answers at 127.0.0.1:1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, _ := options(t, test.mode)
			o.Produce = 10
			if test.spoil != nil {
				test.spoil(&o)
			}
			report, err := run(t, o)
			if report != nil || err == nil || !strings.Contains(err.Error(), test.says) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("%v; want an error that says %q", err, test.says)
			}
			if errors.Is(err, local.ErrOptions) {
				t.Errorf("%v is not about the options", err)
			}
		})
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for says, spoil := range map[string]func(o *local.Options){
		"give a function":                 func(o *local.Options) { o.Function = "" },
		"not both":                        func(o *local.Options) { o.Invoke = "http://x" },
		`--store is "x"`:                  func(o *local.Options) { o.Store = "x" },
		"--partitions is 0":               func(o *local.Options) { o.Partitions = 0 },
		"--produce is -1":                 func(o *local.Options) { o.Produce = -1 },
		"--duplicate is 2":                func(o *local.Options) { o.Faults.Duplicate = 2 },
		"--kill is -1":                    func(o *local.Options) { o.Faults.Kill = -1 },
		"--concurrent-duplicates is 1.5":  func(o *local.Options) { o.Faults.Concurrent = 1.5 },
		"--init-timeout is -1s":           func(o *local.Options) { o.InitTimeout = -time.Second },
		"--init-timeout needs":            func(o *local.Options) { o.Function, o.Env, o.Invoke, o.InitTimeout = "", nil, "http://x", time.Second },
		"--broker-port is 65536":          func(o *local.Options) { o.Ports.Broker = 65536 },
		"--broker-port and --brokers":     func(o *local.Options) { o.Ports.Broker, o.Brokers = 1, []string{"127.0.0.1:1"} },
		"--dynamodb-port needs":           func(o *local.Options) { o.Ports.DynamoDB, o.Store = 1, "http://127.0.0.1:1" },
		"--sqs-port needs":                func(o *local.Options) { o.Ports.SQS, o.Store = 1, local.StoreNone },
		"IDEMSK_OUTBOX=on needs":          func(o *local.Options) { o.Env = append(o.Env, "IDEMSK_OUTBOX=on") },
		"--slow is -1s":                   func(o *local.Options) { o.Faults.Slow = -time.Second },
		"--kill needs --function":         func(o *local.Options) { o.Function, o.Invoke, o.Faults.Kill = "", "http://x", 0.1 },
		"--env needs --function":          func(o *local.Options) { o.Function, o.Invoke = "", "http://x" },
		`--env "x" is neither NAME=VALUE`: func(o *local.Options) { o.Env = []string{"x"} },
		"can't be split into words":       func(o *local.Options) { o.Function = "'x" },
		"--batch-size is 0":               func(o *local.Options) { o.ESM.BatchSize = 0 },
		"--producer-duplicates is 2":      func(o *local.Options) { o.Copies = 2 },
		"--prove needs --until-drained":   func(o *local.Options) { o.Prove, o.UntilDrained = true, false },
		"--prove needs a --store":         func(o *local.Options) { o.Prove, o.Store = true, local.StoreNone },
		"--prove allows nothing":          func(o *local.Options) { o.Prove, o.ESM.MaximumRetryAttempts = true, 1 },
		"--prove and --kill don't go":     func(o *local.Options) { o.Prove, o.Store, o.Faults.Kill = true, "redis://127.0.0.1:1", 0.1 },
		"--prove needs --function":        func(o *local.Options) { o.Prove, o.Function, o.Env, o.Invoke = true, "", nil, "http://x" },
		"IDEMSK_MAX_ATTEMPTS is":          func(o *local.Options) { o.Prove = true; o.Env = append(o.Env, "IDEMSK_MAX_ATTEMPTS=0") },
		`--on-failure is "arn:aws:sns:x"`: func(o *local.Options) { o.ESM.OnFailure = "arn:aws:sns:x" },
		`--invoke is "x"`:                 func(o *local.Options) { o.Function, o.Env, o.Invoke = "", nil, "x" },
		"--invoke has the path /x":        func(o *local.Options) { o.Function, o.Env, o.Invoke = "", nil, "http://x/x" },
	} {
		o, _ := options(t, "noop")
		spoil(&o)
		if _, err := run(t, o); err == nil || !errors.Is(err, local.ErrOptions) && !errors.Is(err, esm.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an ErrOptions that says %q", err, says)
		}
	}
}

// The usual way to lose records: the function fails whatever it gets, retries are limited, and there is no destination.
func TestRecordsThatAreLost(t *testing.T) {
	t.Parallel()
	o, s := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts = 20, 1
	o.Show = func(v *local.View) func() { return func() { s.say(v.Line()) } }
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Lost != 20 || report.Done != 0 || report.Lag() != 0 || report.OwnFailures() != report.Invocations {
		t.Errorf("%+v", report)
	}
	for _, want := range []string{"20 records lost: given up, no on-failure destination\n", "last error: payments-", `Boom: no \x1b[31m`, "0 done"} {
		if !strings.Contains(report.Text(), want) {
			t.Errorf("the closing table does not have %q:\n%s", want, report.Text())
		}
	}
	for _, want := range []string{"0 records done, ", "20 records lost: given up, no on-failure destination, last error: payments-"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("the view's line does not have %q:\n%s", want, s)
		}
	}
}

// AWS loses in silence what a function names as failed if the event source is without ReportBatchItemFailures. Here it is said.
func TestFailuresThatNobodyLooksAt(t *testing.T) {
	t.Parallel()
	o, s := options(t, "names")
	o.Produce, o.Partitions = 20, 1
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Ignored == 0 || report.Ignored != report.Invocations || report.Done != 20-report.Ignored || report.Gone() != report.Ignored {
		t.Errorf("%+v", report)
	}
	if n := strings.Count(s.String(), "WARNING: the function names records that failed, and the event source is without ReportBatchItemFailures"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, s)
	}
	if !strings.Contains(report.Text(), " lost: named as failed by the function, without ReportBatchItemFailures\n") {
		t.Errorf("%s", report.Text())
	}
}

// A record that no event can hold is the one that a proof has to find: everything else that gives up is refused.
func TestAProofFailsIfARecordIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("payments"), kgo.ProducerBatchMaxBytes(10<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Value: make([]byte, 5_000_000)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	o, _ := options(t, "noop")
	o.Brokers, o.Prove = c.ListenAddrs(), true
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Lost != 1 || report.Proof.OK() || !slices.Contains(report.Proof.Problems, "1 record lost: given up, no on-failure destination") {
		t.Errorf("%+v, problems %q", report.Counts, report.Proof.Problems)
	}
}

// A process that dies by itself is a failure of its own, that of a kill is not; the request ID says nothing to anybody.
func TestLastError(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fatal")
	o.Produce, o.Partitions, o.ESM.MaximumRetryAttempts = 5, 1, 0
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if want := "payments-0@0+4: Runtime.ExitError: Runtime exited with error: exit status 3"; report.LastError != want || report.OwnFailures() != 1 {
		t.Errorf("the last error is %q, want %q; %+v", report.LastError, want, report)
	}
	o, _ = options(t, "slow")
	o.Produce, o.Faults.Kill, o.ESM.BatchSize = 100, 0.5, 10
	if report, err = run(t, o); err != nil || len(report.Kills) == 0 || report.OwnFailures() != 0 || report.LastError != "" || report.Lost != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestInitTimeout(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "late")
	o.Produce, o.InitTimeout = 5, 10*time.Millisecond
	if _, err := run(t, o); !errors.Is(err, runtimeapi.ErrInitTimeout) || !strings.Contains(err.Error(), "--init-timeout") {
		t.Errorf("%v; want the flag that helps", err)
	}
	o.InitTimeout = time.Minute
	if report, err := run(t, o); err != nil || report.Done != 5 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestOnFailureToAQueueInThisProcess(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = 20, 0, "arn:aws:sqs:us-east-1:000000000000:gave-up"
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.GivenUp[esm.RetryAttemptsExhausted] != 20 || report.Sent != 20 || report.Lag() != 0 || report.Failed != report.Invocations {
		t.Errorf("%+v", report)
	}
	if text := report.Text(); !strings.Contains(text, "20 records: RetryAttemptsExhausted") || !strings.Contains(text, "20 records at the on-failure destination") {
		t.Errorf("%s", text)
	}
}

func TestOnFailureToATopic(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b")
	o, _ := options(t, "fails")
	o.Brokers, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = c.ListenAddrs(), 0, "kafka://letters"
	report, err := run(t, o)
	if err != nil || report.Sent != 2 {
		t.Fatal(report, err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("letters"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []string
	for len(got) < 2 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			got = append(got, string(r.Key))
			if !strings.Contains(string(r.Value), `"condition":"RetriesExhausted"`) {
				t.Errorf("%s", r.Value)
			}
		}
	}
	if got[0] != "key-a" || got[1] != "key-b" {
		t.Errorf("keys %v", got)
	}
	o.ESM.OnFailure, o.ESM.ConsumerGroup = "kafka://nowhere", "other"
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "the topic nowhere did not take 2 records") {
		t.Errorf("a topic that is not there: %v", err)
	}
}

func TestOnFailureToABucket(t *testing.T) {
	t.Parallel()
	var puts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case !strings.Contains(r.Header.Get("Authorization"), "/us-east-1/s3/aws4_request"):
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodHead && r.URL.Path == "/there":
		case r.Method == http.MethodPut:
			puts = append(puts, r.URL.Path+" "+string(body))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	o, _ := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure, o.ESM.BatchSize = 10, 0, "arn:aws:s3:::there", 10
	o.Endpoint = true
	o.AWS = func(context.Context) (aws.Config, error) {
		return aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, nil
	}
	report, err := run(t, o)
	if err != nil || report.Sent != 10 {
		t.Fatal(report, err)
	}
	key := regexp.MustCompile(`^/there/aws/lambda/[0-9a-f-]{36}/payments-\d/\d{4}/\d\d/\d\d/\d{4}-\d\d-\d\dT\d\d\.\d\d\.\d\d-[0-9a-f-]{36} \{`)
	for _, put := range puts {
		if !key.MatchString(put) || !strings.Contains(put, `"payload":"{\"eventSource\"`) {
			t.Errorf("%s", put)
		}
	}
	o.ESM.OnFailure = "s3://nowhere"
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "bucket nowhere at "+server.URL+": 404") {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

// lambdaServer is an Invoke endpoint.
func lambdaServer(t *testing.T, answer func(w http.ResponseWriter, n int)) string {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet && r.URL.Path == "/2015-03-31/functions/payments" {
			_, _ = io.WriteString(w, `{"Configuration":{}}`)
			return
		}
		if r.URL.Path != "/2015-03-31/functions/payments/invocations" {
			w.Header().Set("X-Amzn-Errortype", "ResourceNotFoundException")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		n++
		answer(w, n)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestInvokeEndpoint(t *testing.T) {
	t.Parallel()
	url := lambdaServer(t, func(w http.ResponseWriter, n int) {
		w.Header().Set("X-Amzn-Requestid", "id")
		switch n {
		case 1:
			w.Header().Set("X-Amzn-Errortype", "TooManyRequestsException")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.Header().Set("X-Amz-Function-Error", "Unhandled")
			_, _ = io.WriteString(w, `{"errorType":"Boom","errorMessage":"no"}`)
		default: // {"_aws":{},"Executed":2,"BatchSize":2}
			w.Header().Set("X-Amz-Log-Result", "eyJfYXdzIjp7fSwiRXhlY3V0ZWQiOjIsIkJhdGNoU2l6ZSI6Mn0K")
			_, _ = io.WriteString(w, `{"batchItemFailures":[]}`)
		}
	})
	o, _ := options(t, "")
	o.Function, o.Env, o.Invoke, o.FunctionName = "", nil, url, "payments"
	o.Brokers, o.ESM.MaximumRetryAttempts = newCluster(t, "a", "b").ListenAddrs(), 1
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Invocations != 2 || report.Failed != 1 || report.Done != 2 || report.Outcomes.Executed != 2 || len(report.GivenUp) != 0 {
		t.Errorf("%+v; want one function error, and the throttle not counted", report)
	}
}

// A name that is wrong is found before the first record: the run would wait for one in silence.
func TestInvokeEndpointWithoutTheFunction(t *testing.T) {
	t.Parallel()
	url := lambdaServer(t, func(http.ResponseWriter, int) { t.Error("nothing is to be invoked") })
	o, _ := options(t, "")
	o.Function, o.Env, o.Invoke, o.UntilDrained = "", nil, url+"/2015-03-31/functions/nobody/invocations", false
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "there is no function nobody at "+url) {
		t.Errorf("%v", err)
	}
}

// A Runtime Interface Emulator knows no other request than an invocation.
func TestInvokeAnEmulator(t *testing.T) {
	t.Parallel()
	emulator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path != "/2015-03-31/functions/function/invocations" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"batchItemFailures":[]}`)
	}))
	t.Cleanup(emulator.Close)
	o, _ := options(t, "")
	o.Function, o.Env, o.Invoke, o.Produce = "", nil, emulator.URL+"/2015-03-31/functions/function/invocations", 10
	if report, err := run(t, o); err != nil || report.Done != 10 {
		t.Errorf("%+v, %v", report, err)
	}
}

// Everything that talks to the brokers proves who it is.
func TestBrokersThatWantToKnow(t *testing.T) {
	t.Parallel()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments", "letters"), kfake.ListenFn(loopback),
		kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o, _ := options(t, "fails")
	o.Brokers, o.Produce, o.ESM.MaximumRetryAttempts, o.ESM.OnFailure = c.ListenAddrs(), 10, 0, "kafka://letters"
	o.Kafka = []kgo.Opt{kgo.SASL(plain.Auth{User: "user", Pass: "secret"}.AsMechanism())}
	report, err := run(t, o)
	if err != nil || report.Sent != 10 {
		t.Errorf("%+v, %v", report, err)
	}
	o.Kafka = nil
	if _, err := run(t, o); err == nil || !strings.Contains(err.Error(), "whether the listener wants --tls or --sasl") {
		t.Errorf("%v", err)
	}
}

// Ctrl-C ends a run without an error, with what was done with committed.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	o, s := options(t, "slow")
	o.UntilDrained, o.Produce = false, 1000
	o.ESM.BatchSize = 1
	ctx, stop := context.WithCancel(t.Context())
	shown := 0
	o.Show = func(v *local.View) func() {
		shown++
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if line := v.Line(); !strings.HasPrefix(line, "0 records done") && !strings.Contains(line, "lag 0,") {
					stop()
				}
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
				}
			}
		}()
		return func() { <-done; s.say(v.Line()); s.say(strings.Join(v.Lines(term.Room{Columns: 79, Rows: 23}), "\n")) }
	}
	report, err := local.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Done == 0 || report.Done >= 1000 || report.Lag() == 0 || shown != 1 || report.Done != report.Delivered {
		t.Errorf("%+v", report)
	}
	if !strings.Contains(report.Text(), "not committed after") || !strings.Contains(s.String(), "partition  poller  committed") {
		t.Errorf("%s\n%s", report.Text(), s)
	}
}

// A second Ctrl-C cuts off what the first one waits for, and nothing of it is committed.
func TestCutOff(t *testing.T) {
	t.Parallel()
	o, s := options(t, "hangs")
	o.UntilDrained, o.Produce, o.Partitions = false, 5, 1
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cut := make(chan struct{}, 1)
	o.Cut = cut
	o.ESM.Timeout = 10 * time.Minute
	o.Show = func(v *local.View) func() {
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for ctx.Err() == nil && !strings.Contains(v.Line(), "lag 5, 5 in flight") {
				<-time.After(time.Millisecond)
			}
			stop()
		}()
		return func() { <-watched }
	}
	o.Say = func(line string) {
		s.say(line)
		if strings.HasPrefix(line, "Stopping: ") {
			cut <- struct{}{}
		}
	}
	report, err := local.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if report.Done != 0 || report.Lag() != 5 {
		t.Errorf("%+v", report)
	}
	for _, want := range []string{"Waiting for the function to be done with 5 records, for 10m0s at most", "comes again with the next run"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("not said: %q\n%s", want, s)
		}
	}
}

// The view takes the room that it is given, at the cost of partitions, and shows an error in several lines.
func TestViewInASmallRoom(t *testing.T) {
	t.Parallel()
	o, _ := options(t, "fatal")
	o.Produce, o.Partitions, o.ESM.MaximumRetryAttempts = 100, 14, 0
	var shown, cut []string
	o.Show = func(v *local.View) func() {
		return func() {
			shown = v.Lines(term.Room{Columns: 49, Rows: 23})
			cut = v.Lines(term.Room{Columns: 49, Rows: 5})
		}
	}
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(shown, "\n")
	if len(shown) != 23 || !strings.Contains(text, " more that lag less\n") || !strings.Contains(text, "\nlast error: payments-") ||
		!strings.HasSuffix(text, "error: exit status 3") {
		t.Errorf("%d lines:\n%s", len(shown), text)
	}
	if !strings.Contains(strings.Join(cut, "\n"), "… and 14 more") {
		t.Errorf("in no room at all: %q", cut)
	}
}

func TestToggle(t *testing.T) {
	t.Parallel()
	o, s := options(t, "slow")
	o.Produce, o.ESM.BatchSize = 50, 5
	toggle := make(chan struct{})
	o.Toggle = toggle
	ended := make(chan error, 1)
	go func() { _, err := local.Run(t.Context(), o); ended <- err }()
	for range 2 {
		toggle <- struct{}{}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if said := s.String(); !strings.Contains(said, "mapping is disabled") || !strings.Contains(said, "is enabled again") {
		t.Errorf("%s", said)
	}
}

func TestHostileErrorsAreEscaped(t *testing.T) {
	t.Parallel()
	o, s := options(t, "fails")
	o.Produce, o.ESM.MaximumRetryAttempts = 5, 0
	o.Show = func(v *local.View) func() {
		return func() { s.say(strings.Join(v.Lines(term.Room{Columns: 79, Rows: 23}), "\n")) }
	}
	if _, err := run(t, o); err != nil {
		t.Fatal(err)
	}
	if said := s.String(); strings.Contains(said, "\x1b") || !strings.Contains(said, `Boom: no \x1b[31m`) {
		t.Errorf("%q", said)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"./bootstrap": "./bootstrap", "  a  b\tc\n": "a|b|c", `python3 -m 'a b' "c d"`: "python3|-m|a b|c d",
		`a\ b "c\"d" 'e\f' "g\h"`: `a b|c"d|e\f|g\h`, `a "" ''`: "a||", `x'y'"z"`: "xyz", `$HOME *`: "$HOME|*",
	} {
		got, err := local.Words(command)
		if err != nil || strings.Join(got, "|") != want {
			t.Errorf("%s: %q, %v; want %s", command, got, err, want)
		}
	}
	for _, command := range []string{"", "  ", "'a", `"a`, `a\`} {
		if got, err := local.Words(command); err == nil {
			t.Errorf("%q gave %s", command, fmt.Sprint(got))
		}
	}
}
