//go:build rest

package pgoutbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
	"github.com/idemsk/idemsk/outbox"
	"github.com/idemsk/idemsk/outbox/pgoutbox"
)

// connect is a worker of Kafka Connect in distributed mode, with Debezium.
type connect struct {
	group, url string
	cmd        *exec.Cmd
	log        bytes.Buffer
}

func newConnect(tb testing.TB) *connect {
	tb.Helper()
	c := &connect{group: unique("connect")}
	tb.Cleanup(func() {
		if c.kill(); tb.Failed() {
			tb.Log(c.log.String())
		}
	})
	return c
}

// start starts the worker on a free port, and waits until it serves its API.
func (c *connect) start(tb testing.TB) {
	tb.Helper()
	free, err := serverproc.FreePort(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	port := strconv.Itoa(free)
	c.url = "http://127.0.0.1:" + port
	c.cmd = exec.Command("../debezium/debezium.sh", "connect", servers.Kafka(tb).Addr(), port, c.group)
	c.cmd.Env = append(os.Environ(), "TZ=UTC")
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	c.until(tb, "the worker", http.MethodGet, "/connectors", "", `[`)
}

// kill ends the process as a crash does.
func (c *connect) kill() {
	if c.cmd != nil {
		_ = c.cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
		_ = c.cmd.Wait()                          // it was killed
		c.cmd = nil
	}
}

// until repeats a request to the API until its answer contains a text.
func (c *connect) until(tb testing.TB, what, method, path, body, want string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		answer := c.request(ctx, method, path, body)
		if strings.Contains(answer, want) {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			tb.Fatalf("waiting for %s: %s", what, answer)
		}
	}
}

func (c *connect) request(ctx context.Context, method, path, body string) string {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// configure creates the connector with outbox.properties, and with the headers expanded.
func (c *connect) configure(tb testing.TB, pool *pgxpool.Pool, table string) {
	tb.Helper()
	properties, err := os.ReadFile("../debezium/outbox.properties")
	if err != nil {
		tb.Fatal(err)
	}
	config := make(map[string]string)
	for line := range strings.Lines(string(properties)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			config[name] = value
		}
	}
	for name, value := range databaseSettings(pool, table) {
		config[name] = value
	}
	config["transforms"], config["transforms.headers.type"] = "outbox,headers", "ExpandHeaders"
	config["header.converter"] = "org.apache.kafka.connect.converters.ByteArrayConverter"
	body, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	c.until(tb, "the connector", http.MethodPut, "/connectors/outbox/config", string(body), `"name":"outbox"`)
	c.until(tb, "its task", http.MethodGet, "/connectors/outbox/status", "", `"id":0,"state":"RUNNING"`)
}

// Kafka Connect in distributed mode sends each event with its own headers, also those from while its worker
// was dead. A row whose headers are not a list stops it, and its status names the row.
func TestKafkaConnectSendsTheEventsWithTheirHeaders(t *testing.T) {
	pool := newPool(t, postgres.URL())
	o, table := newOutbox(t, pool, pgoutbox.Config{})
	topics := []string{newTopic(t, 3), newTopic(t, 1)}
	r := newReader(t, topics...)
	prepareDebezium(t, pool, table)
	c := newConnect(t)
	var sent []outbox.Event
	more := func() {
		for i, headers := range [][]outbox.Header{
			nil, {{Key: "n", Value: []byte("1")}},
			{{Key: "n", Value: []byte("1")}, {Key: "n", Value: []byte("2")}},
			{{Key: "bytes", Value: []byte{0, 0xfe}}},
			{{Key: "null"}, {Key: "empty", Value: []byte{}}},
			{{Key: "idempotency-key", Value: []byte("own")}}, {{Key: "true", Value: []byte("true")}},
		} {
			n := len(sent)
			e := outbox.Event{
				ID: fmt.Sprintf("019a7c54-0000-7000-8000-%012d", n), Topic: topics[i%2],
				Key: fmt.Append(nil, "account ", i%3), Value: fmt.Append(nil, n), Headers: headers,
			}
			sent = append(sent, e)
			publish(t, pool, o, e)
		}
	}
	more()
	c.start(t)
	c.configure(t, pool, table)
	r.ids(t, len(sent))
	c.kill()
	more()
	c.start(t)
	more()
	r.ids(t, len(sent))
	verify(t, r, sent, func(e outbox.Event) string {
		headers := []outbox.Header{{Key: "id", Value: []byte(e.ID)}, {Key: "event-id", Value: []byte(e.ID)}}
		if len(e.Headers) != 1 || e.Headers[0].Key != "idempotency-key" {
			headers = append(headers, outbox.Header{Key: "idempotency-key", Value: []byte(e.ID)})
		}
		return headersText(append(headers, e.Headers...))
	})
	if _, err := pool.Exec(t.Context(), `INSERT INTO `+table+
		` (id, aggregatetype, headers) VALUES ('019a7c54-0000-7000-8000-00000000ffff', 't', '{"n":1}')`); err != nil {
		t.Fatal(err)
	}
	c.until(t, "the end of its task", http.MethodGet, "/connectors/outbox/status", "",
		`event 019a7c54-0000-7000-8000-00000000ffff: the column headers: want [`)
}

// BenchmarkKafkaConnect measures how fast Debezium in Kafka Connect sends a backlog, with PostgreSQL, Kafka
// and the worker on one host.
func BenchmarkKafkaConnect(b *testing.B) {
	pool := newPool(b, postgres.URL())
	o, table := newOutbox(b, pool, pgoutbox.Config{})
	topic := newTopic(b, 6)
	prepareDebezium(b, pool, table)
	c := newConnect(b)
	c.start(b)
	c.configure(b, pool, table)
	publish(b, pool, o, outbox.Event{Topic: topic, Key: []byte("warm")})
	r := newReader(b, topic)
	r.ids(b, 1)
	c.until(b, "its pause", http.MethodPut, "/connectors/outbox/stop", "", "")
	c.until(b, "its end", http.MethodGet, "/connectors/outbox/status", "", `"tasks":[]`)
	backlog(b, o, topic, b.N)
	b.ResetTimer()
	c.until(b, "its resumption", http.MethodPut, "/connectors/outbox/resume", "", "")
	r.until(b, "the first of the backlog", func() bool { return len(r.all) > 1 })
	first := time.Now()
	r.until(b, "the backlog", func() bool { return len(r.all) > b.N })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(first).Seconds(), "events/s")
}
