package local_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/handlertest"
)

// modeVariable makes the test binary a function. Its value is the mode of the function.
const modeVariable = "LOCAL_TEST_MODE"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		child(mode)
		return
	}
	os.Exit(handlertest.Main(m, &handler))
}

// handler is the path of the example function.
var handler string //nolint:gochecknoglobals // set once, before any test

// child is a function on the Runtime API.
func child(mode string) {
	if mode == "dies" {
		_, _ = os.Stderr.WriteString("no configuration\n")
		os.Exit(3)
	}
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		resp, err := http.Get(base + "next")
		if err != nil {
			os.Exit(0) // the Runtime API has ended
		}
		event, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		path, answer := "/response", "null"
		switch mode {
		case "environment":
			_, _ = os.Stdout.WriteString(strings.Join(os.Environ(), " ") + "\n")
		case "names": // a record of the event as failed
			offset := regexp.MustCompile(`"offset":(\d+)`).FindSubmatch(event)[1]
			answer = `{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-0","offset":` +
				string(offset) + `}}]}`
		case "garbage":
			answer = `"ok"`
		case "fails":
			path, answer = "/error", `{"errorType":"Boom","errorMessage":"no \u001b[31m"}`
		case "fatal":
			_, _ = os.Stderr.WriteString("this is why\n")
			os.Exit(3)
		case "slow":
			<-time.After(20 * time.Millisecond)
		case "metrics":
			_, _ = os.Stdout.WriteString(`{"_aws":{},"Executed":2,"BatchSize":2,"table":"` +
				os.Getenv("IDEMSK_TABLE") + `"}` + "\n")
		}
		done, err := http.Post(base+resp.Header.Get("Lambda-Runtime-Aws-Request-Id")+path, "application/json",
			strings.NewReader(answer))
		if err != nil {
			os.Exit(0)
		}
		_, _ = io.Copy(io.Discard, done.Body)
		_ = done.Body.Close()
	}
}

// transcript records the lines that are shown, and the function's log.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (s *transcript) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line)
}

func (s *transcript) Write(p []byte) (int, error) { s.say("log: " + string(p)); return len(p), nil }

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// options returns options that run this test binary as the function of a mode, until nothing is left to
// deliver.
func options(t *testing.T, mode string) (local.Options, *transcript) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := new(transcript)
	o := local.Options{
		ESM: esm.DefaultConfig(), Partitions: 3, Function: "'" + program + "'", FunctionName: "function",
		Store: local.StoreFake,
		Env:   []string{modeVariable + "=" + mode, "GOCOVERDIR=" + t.TempDir()},
		Seed:  7, UntilDrained: true, Log: s, Say: s.say,
		AWS: func(context.Context) (aws.Config, error) {
			return aws.Config{Region: "us-east-1",
				Credentials: credentials.NewStaticCredentialsProvider("id", "secret", "")}, nil
		},
	}
	o.ESM.Topics, o.ESM.ConsumerGroup, o.ESM.MaximumBatchingWindow = []string{"payments"}, "group",
		20*time.Millisecond
	o.ESM.RetryDelay = time.Millisecond
	return o, s
}

func run(t *testing.T, o local.Options) (*local.Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	report, err := local.Run(ctx, o)
	if ctx.Err() != nil {
		t.Fatal("the run did not end")
	}
	return report, err
}

// mustRun is run for a run without an error.
func mustRun(t *testing.T, o local.Options) *local.Report {
	t.Helper()
	report, err := run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// newCluster starts a cluster with records in its topic.
func newCluster(t *testing.T, values ...string) *kfake.Cluster {
	t.Helper()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "payments", "letters"),
		kfake.ListenFn(loopback),
		kfake.BrokerConfigs(map[string]string{"message.max.bytes": "10000000"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("payments"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(t.Context(),
			&kgo.Record{Key: []byte("key-" + v), Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
