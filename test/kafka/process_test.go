package kafka_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	appprocess "github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/subprocess"
	"github.com/idemsk/idemsk/kafka"
)

// processVariable makes the test binary a consumer process. Its handler does not return for the key "slow"
// before the deadline of its context, and not at all for the key "stuck".
const processVariable = "E2E_PROCESS"

func process() {
	if os.Getenv(processVariable) == quietProcess {
		quietly()
	}
	appprocess.Start(kafka.HandlerFunc(func(ctx context.Context, r kafka.Record) ([]byte, error) {
		fmt.Println("handling", string(r.Key))
		slog.InfoContext(ctx, "booking")
		switch string(r.Key) {
		case "slow":
			<-ctx.Done()
		case "stuck":
			select {}
		}
		return nil, ctx.Err()
	}))
}

// consumerProcess is the test binary as a consumer.
type consumerProcess struct {
	*subprocess.Process
	t    testing.TB
	more chan struct{} // there are new lines
	said int           // how many lines says has looked at

	mu    sync.Mutex
	lines []string // of stdout and stderr
	calls int      // after which SIGTERM is sent; 0 if it is not
}

func startProcess(t testing.TB, brokers []string, env ...string) *consumerProcess {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &consumerProcess{t: t, more: make(chan struct{}, 1)}
	env = append([]string{
		processVariable + "=1", "IDEMSK_STORE=memory", "IDEMSK_KAFKA_BROKERS=" + strings.Join(brokers, ","),
		"IDEMSK_KAFKA_TOPICS=" + topic,
		"IDEMSK_KAFKA_GROUP=" + group, "IDEMSK_HTTP_ADDR=127.0.0.1:0", "GOCOVERDIR=" + t.TempDir(),
		"IDEMSK_KEY=key",
	}, env...)
	if p.Process, err = subprocess.Start([]string{program}, env, p.line); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		<-p.Ended()
	})
	return p
}

func (p *consumerProcess) line(line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, string(line))
	if p.calls > 0 && strings.HasPrefix(string(line), "handling ") {
		if p.calls--; p.calls == 0 {
			p.Signal(syscall.SIGTERM)
		}
	}
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// endsAfter sends SIGTERM when n more handlers are called. What reads the lines sends it, so the process can
// be ahead only by what fits into the pipe.
func (p *consumerProcess) endsAfter(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = n
}

// output returns the lines of the process until now.
func (p *consumerProcess) output() []string { return p.since(0) }

// since returns the lines until now without the first n.
func (p *consumerProcess) since(n int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[n:])
}

// says waits for a line that matches, and returns its groups.
func (p *consumerProcess) says(pattern string) []string {
	p.t.Helper()
	limit, match := time.After(time.Minute), regexp.MustCompile(pattern)
	for ended := false; ; {
		for _, line := range p.since(p.said) {
			p.said++
			if m := match.FindStringSubmatch(line); m != nil {
				return m
			}
		}
		if ended {
			p.t.Fatalf("the process ended without %q:\n%s", pattern, strings.Join(p.output(), "\n"))
		}
		select {
		case <-p.more:
		case <-p.Ended():
			ended = true
		case <-limit:
			p.t.Fatalf("no line with %q in a minute:\n%s", pattern, strings.Join(p.output(), "\n"))
		}
	}
}

// exits waits for the end of the process, which must have the status.
func (p *consumerProcess) exits(status int) {
	p.t.Helper()
	<-p.Ended()
	if got, _ := p.Status(); got != fmt.Sprint("exit status ", status) {
		p.t.Errorf("%s; want %d; output:\n%s", got, status, strings.Join(p.output(), "\n"))
	}
}

// handled returns how often the handler was called for each key.
func (p *consumerProcess) handled() map[string]int {
	calls := make(map[string]int)
	for _, line := range p.output() {
		if key, ok := strings.CutPrefix(line, "handling "); ok {
			calls[key]++
		}
	}
	return calls
}

// onTCP returns a cluster that processes can reach, with a record for each key.
func onTCP(t *testing.T, keys ...string) *kfake.Cluster {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	f := &fixture{T: t, brokers: cluster.ListenAddrs()}
	for _, key := range keys {
		f.write(payment(0, key))
	}
	return cluster
}

// The first signal drains: the offsets are committed, and the status is 0. Until then the process is live and
// ready and shows its metrics.
func TestSignalDrainsTheProcess(t *testing.T) {
	cluster := onTCP(t, "a", "b")
	p := startProcess(t, cluster.ListenAddrs())
	address := p.says(`"address":"([^"]+)"`)[1]
	p.says("handling")
	p.says("handling")
	for path, want := range map[string]string{"/livez": "ok\n", "/readyz": "ok\n",
		"/metrics": "idemsk_executed_total 2\n"} {
		if body := get(t, "http://"+address+path, want); !strings.Contains(body, want) {
			t.Errorf("%s: %q; want %q", path, body, want)
		}
	}
	metrics := get(t, "http://"+address+"/metrics", "")
	for _, want := range []string{"idemsk_records_total 2", `idemsk_lag{partition="0",topic="payments"} 0`,
		"idemsk_joined 1", "idemsk_kafka_fetch_bytes_total", "go_goroutines"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %q:\n%s", want, metrics)
		}
	}
	p.Signal(syscall.SIGTERM)
	p.says("draining")
	p.exits(0)
	if got := cluster.GroupInfo(group); got.Commits[topic][0].Offset != 2 || len(got.Members) != 0 {
		t.Errorf("commits %v, members %v", got.Commits, got.Members)
	}
}

// get reads a page until it contains a text, at most 10 s.
func get(t *testing.T, url, want string) (body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if body = string(page); strings.Contains(body, want) {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
	return body
}

// The second signal ends the process at once, with status 1.
func TestSecondSignalEndsTheProcess(t *testing.T) {
	p := startProcess(t, onTCP(t, "stuck").ListenAddrs(), "IDEMSK_DRAIN_TIMEOUT=10m")
	p.says("handling stuck")
	p.Signal(syscall.SIGTERM)
	p.says("draining")
	p.Signal(syscall.SIGTERM)
	p.says("again: the process ends")
	p.exits(1)
}

// A handler that does not return is named, and the status is 1. One that observes its context is waited for.
func TestStuckHandlerIsNamed(t *testing.T) {
	p := startProcess(t, onTCP(t, "slow", "stuck").ListenAddrs(), "IDEMSK_DRAIN_TIMEOUT=500ms")
	p.says("handling")
	p.says("handling")
	p.Signal(syscall.SIGTERM)
	p.says("a handler did not return within the drain timeout.*payments-0@1")
	p.exits(1)
	if log := strings.Join(p.output(), "\n"); strings.Contains(log,
		`drain timeout: its record is delivered again","source":"payments-0@0"`) {
		t.Errorf("the slow handler is named too:\n%s", log)
	}
}

// An error of the configuration ends the process before it joins, and names all variables.
func TestInvalidConfigurationEndsTheProcess(t *testing.T) {
	p := startProcess(t, onTCP(t).ListenAddrs(), "IDEMSK_KAFKA_TOPICS=", "IDEMSK_MAX_BYTES=lots",
		"IDEMSK_HTTP_ADR=:1")
	p.says("IDEMSK_HTTP_ADR is set, but the configuration does not read it.*IDEMSK_HTTP_ADDR")
	var lines []string
	for range 2 {
		lines = append(lines, p.says(`^(IDEMSK_[A-Z_]+) is "`)[1])
	}
	slices.Sort(lines)
	if want := []string{"IDEMSK_KAFKA_TOPICS", "IDEMSK_MAX_BYTES"}; !slices.Equal(lines, want) {
		t.Errorf("%q are named; want %q", lines, want)
	}
	p.exits(1)
}

// The lines that a handler of a process logs by the default logger name its record.
func TestLinesOfAHandlerNameItsRecord(t *testing.T) {
	p := startProcess(t, onTCP(t, "a").ListenAddrs(), "IDEMSK_HASH_KEYS=true")
	line := p.says(`^\{.*"msg":"booking".*\}$`)[0]
	var got struct {
		Source, Key string
		Attempt     int
		Token       int64
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatal(err)
	}
	want, err := store.Key(kafka.StoredKey(group, topic, "a"), true)
	if err != nil {
		t.Fatal(err)
	}
	if got.Source != topic+"-0@0" || got.Key != want || got.Attempt != 1 || got.Token == 0 {
		t.Errorf("%s; want the source, the key %s, the attempt and the token", line, want)
	}
}
