package esm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/layercall/runtimeapi"
)

// noopVariable makes the test binary a function that does nothing.
const noopVariable = "ESM_TEST_NOOP"

func TestMain(m *testing.M) {
	if os.Getenv(noopVariable) != "" {
		noop()
		return
	}
	goleak.VerifyTestMain(m)
}

// noop is a function on the Runtime API that answers null.
func noop() {
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		resp, err := http.Get(base + "next")
		if err != nil {
			os.Exit(0) // the Runtime API has ended
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		answer, err := http.Post(base+resp.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response",
			"application/json", strings.NewReader("null"))
		if err != nil {
			os.Exit(0)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
}

// process is an invoker on a process.
type process struct{ f *runtimeapi.Function }

func startNoop(ctx context.Context, _ int) (esm.Invoker, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := runtimeapi.Start(ctx, runtimeapi.Config{Command: []string{program},
		Env: []string{noopVariable + "=1", "GOCOVERDIR=" + os.TempDir()}})
	return process{f}, err
}

func (p process) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	result, err := p.f.Invoke(ctx, inv.Payload)
	return esm.Answer{RequestID: result.RequestID, Payload: result.Payload}, err
}

func (p process) Close(ctx context.Context) { p.f.Close(ctx) }

const topic = "payments"

// newCluster starts a Kafka cluster in this process. Its topic has the number of partitions.
func newCluster(t testing.TB, partitions int32, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	loopback := func(network, _ string) (net.Listener, error) { return net.Listen(network, "127.0.0.1:0") }
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1),
		kfake.SeedTopics(partitions, topic, "letters"), kfake.ListenFn(loopback))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// produce writes n records to each of the partitions, with their offsets as values.
func produce(t testing.TB, c *kfake.Cluster, n int, partitions ...int32) {
	t.Helper()
	for _, p := range partitions {
		var recs []*kgo.Record
		for i := range n {
			recs = append(recs, &kgo.Record{Topic: topic, Partition: p, Key: []byte("k"),
				Value: []byte(strconv.Itoa(i))})
		}
		write(t, c, recs...)
	}
}

// write writes records to their partitions.
func write(t testing.TB, c *kfake.Cluster, recs ...*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(10<<20),
		kgo.MaxBufferedRecords(len(recs)+1))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// config returns a configuration with short times and without limits.
func config() esm.Config {
	c := esm.DefaultConfig()
	c.Topics, c.ConsumerGroup = []string{topic}, "group"
	c.MaximumBatchingWindow, c.RetryDelay = 20*time.Millisecond, time.Millisecond
	return c
}

// drained returns a closed channel, for a run that ends when nothing is left to deliver.
func drained() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// mustRun is run for a mapping that ends without an error.
func mustRun(t testing.TB, c esm.Config, parts esm.Parts) {
	t.Helper()
	if err := run(t, c, parts); err != nil {
		t.Fatal(err)
	}
}

// run runs a mapping until it ends.
func run(t testing.TB, c esm.Config, parts esm.Parts) error {
	t.Helper()
	m, err := esm.New(c, parts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Minute, errors.New("the test took too long"))
	defer cancel()
	err = m.Run(ctx)
	if ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
	return err
}
