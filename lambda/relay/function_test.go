package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/app"
)

// metrics returns the last batch's, and wants CloudWatch to find all of them in it.
func (s *fixture) metrics() map[string]any {
	s.Helper()
	lines := strings.Split(strings.TrimSpace(s.metric.String()), "\n")
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil {
		s.Fatal(err)
	}
	directive := line["_aws"].(map[string]any)["CloudWatchMetrics"].([]any)[0].(map[string]any)
	if directive["Namespace"] != "idemsk" ||
		!reflect.DeepEqual(directive["Dimensions"], []any{[]any{"FunctionName"}}) ||
		line["FunctionName"] != "relay" {
		s.Errorf("metrics: %v, of function %v", directive, line["FunctionName"])
	}
	for _, m := range directive["Metrics"].([]any) {
		if _, ok := line[m.(map[string]any)["Name"].(string)].(float64); !ok {
			s.Errorf("metrics: there is no value of %v", m)
		}
	}
	return line
}

func (s *fixture) wantMetrics(want map[string]float64) {
	s.Helper()
	got := s.metrics()
	for name, n := range want {
		if got[name] != n {
			s.Errorf("%s is %v; want %v", name, got[name], n)
		}
	}
}

// New and requeued items become complete records. Other changes in the stream are ignored.
func TestItemsBecomeRecords(t *testing.T) {
	c := newCluster(t)
	s := start(t, newCloud(t), c, nil)
	requeued := strings.Replace(image(4, "t", "k", "requeued"), `"expiryTimestamp"`,
		`"requeued":{"SS":["event-4"]},"requeuedAt":{"N":"1"},"expiryTimestamp"`, 1)
	parked := strings.Replace(image(5, "t", "k", "noted"), `"expiryTimestamp"`,
		`"parked":{"SS":["event-5"]},"parkedAt":{"N":"1"},"failure":{"S":"x"},"attempts":{"N":"1"},"expiryTimestamp"`, 1)
	reported := s.deliver(insert(1, "t", "k", "one"), insert(2, "t", "k", "two"), change("REMOVE", 3, ""),
		change("MODIFY", 4, requeued),
		change("MODIFY", 5, parked), change("INSERT", 6, parked))
	if len(reported) != 0 {
		t.Errorf("%q are reported", reported)
	}
	var values []string
	for _, r := range read(t, c, 3) {
		values = append(values, string(r.Value))
		n := map[string]int{"one": 1, "two": 2, "requeued": 4}[string(r.Value)]
		id := fmt.Appendf(nil, "event-%d", n)
		want := []kgo.RecordHeader{{Key: "event-id", Value: id}, {Key: "idempotency-key", Value: id},
			{Key: "kind", Value: []byte("v1")}, {Key: "null"}}
		if string(r.Key) != "k" || !reflect.DeepEqual(r.Headers, want) {
			t.Errorf("record %+v; want headers %v", r, want)
		}
	}
	if !slices.Equal(values, []string{"one", "two", "requeued"}) {
		t.Errorf("the topic holds %q", values)
	}
	s.wantMetrics(map[string]float64{"OutboxItems": 4, "OutboxPublished": 3, "OutboxFailed": 0,
		"OutboxParked": 0, "OutboxRejected": 0})
	if age := s.metrics()["OutboxAge"].(float64); age < 60_000 || age > 120_000 {
		t.Errorf("OutboxAge is %v ms; want a minute", age)
	}
}

// Events that Kafka rejects, and items that can't be read, are parked and do not block others.
func TestRejectedEventIsParked(t *testing.T) {
	a, c := newCloud(t), newCluster(t)
	s := start(t, a, c, nil)
	unreadable := change("INSERT", 2, `"NewImage":{"aggregate":{"S":"x"},"id":{"S":"item-2"},"ok":{"BOOL":true}},`)
	if reported := s.deliver(insert(1, "nowhere", "k", "x"), unreadable,
		insert(3, "t", "k", "good")); len(reported) != 0 {
		t.Errorf("%q are reported", reported)
	}
	if got := read(t, c, 1); string(got[0].Value) != "good" {
		t.Errorf("the topic holds %q", got[0].Value)
	}
	slices.Sort(a.updates)
	if !slices.Equal(a.updates, []string{"item-1", "item-2"}) {
		t.Errorf("%q were parked", a.updates)
	}
	s.wantMetrics(map[string]float64{"OutboxItems": 3, "OutboxPublished": 1, "OutboxParked": 2,
		"OutboxRejected": 5})
	if logs := s.logs.String(); !strings.Contains(logs, "event-1") || !strings.Contains(logs, "nowhere") ||
		!strings.Contains(logs, "attribute createdAt") {
		t.Errorf("the log says %s", logs)
	}

	for _, tc := range []struct {
		what       string
		full, down bool
		reported   []string
	}{{"nothing can be parked", true, false, []string{"2", "4", "5"}},
		{"the table can't be read", false, true, []string{"2", "4", "5", "6"}}} {
		a.mu.Lock()
		a.full, a.down = tc.full, tc.down
		a.mu.Unlock()
		s.logs.Reset()
		if reported := s.deliver(insert(4, "nowhere", "k", "x"), insert(5, "nowhere", "k", "x"), unreadable,
			insert(6, "t", "k", "good")); !slices.Equal(reported, tc.reported) {
			t.Errorf("%q are reported while %s; want %q", reported, tc.what, tc.reported)
		}
		s.wantMetrics(map[string]float64{"OutboxFailed": float64(len(tc.reported)), "OutboxParked": 0})
		if logs := s.logs.String(); !strings.Contains(logs,
			"the role needs dynamodb:BatchGetItem and UpdateItem") {
			t.Errorf("the log does not say what to do: %s", logs)
		}
	}
}

// While Kafka is unavailable all records are reported. They are sent when it is available again.
func TestRelayRetriesWhenKafkaIsUnavailable(t *testing.T) {
	c := newCluster(t)
	s := start(t, newCloud(t), c, nil)
	batch := []string{insert(1, "t", "k", "one"), insert(2, "t", "l", "two")}
	addr := c.ListenAddrs()[0]
	c.Close()
	if reported := s.deliver(batch...); !slices.Equal(reported, []string{"1", "2"}) {
		t.Errorf("%q are reported; want 1, 2", reported)
	}
	s.wantMetrics(map[string]float64{"OutboxFailed": 2, "OutboxPublished": 0})
	_, port, _ := strings.Cut(addr, ":")
	back, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.Ports(atoi(t, port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(back.Close)
	if reported := s.deliver(batch...); len(reported) != 0 {
		t.Errorf("%q are reported with Kafka back: %s", reported, s.logs.String())
	}
	read(t, back, 2)
}

func atoi(t *testing.T, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A stream of another table, or without images, fails the batch as a whole, so that nothing is lost and an
// alarm is raised.
func TestBatchFromAnotherStreamFails(t *testing.T) {
	s := start(t, newCloud(t), newCluster(t), nil)
	for name, tc := range map[string]struct{ record, want string }{
		"keys only": {change("INSERT", 1, ""), "NEW_IMAGE"},
		"another table": {change("INSERT", 1, `"NewImage":{"pk":{"S":"x"}},`),
			"is this the stream of an outbox's table?"},
	} {
		if _, err := s.try(t.Context(), insert(2, "t", "k", "x"), tc.record); err == nil ||
			!strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", name, err, tc.want)
		}
	}
}

// With less time left than sending may take, the function sends nothing.
func TestNothingIsSentWithTooLittleTime(t *testing.T) {
	s := start(t, newCloud(t), newCluster(t), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := s.try(ctx, insert(1, "t", "k", "x")); err == nil ||
		!strings.Contains(err.Error(), "longer timeout") {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if reported, err := s.try(ctx, insert(1, "t", "k", "x")); err != nil || len(reported) != 0 {
		t.Errorf("%v, %q", err, reported)
	}
}

// All errors of the variables are reported together.
func TestAllInvalidVariablesAreNamed(t *testing.T) {
	vars := map[string]string{
		"IDEMSK_OUTBOX_TABLE": "a b", "IDEMSK_KAFKA_BROKERS": "broker", "IDEMSK_KAFKA_AUTH": "mtls",
		"IDEMSK_KAFKA_TLS":    "false",
		"IDEMSK_KAFKA_TLS_CA": "nowhere.pem", "IDEMSK_KAFKA_TIMEOUT": "1h",
		"IDEMSK_LOG_LEVEL": "loud",
	}
	v := app.NewVars(lookup(vars))
	_, err := newFunction(t.Context(), v, nil, nil)
	if err == nil {
		t.Fatal("no error")
	}
	delete(vars, "IDEMSK_KAFKA_AUTH")
	for _, name := range append([]string{"IDEMSK_KAFKA_SECRET_ARN"}, slices.Collect(maps.Keys(vars))...) {
		if !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("nothing is said of %s: %v", name, err)
		}
	}
}

func TestUnreadVariableIsNamed(t *testing.T) {
	t.Setenv("IDEMSK_KAFKA_BROKER", "127.0.0.1:9")
	t.Setenv("IDEMSK_KAFKA_BROKERS", "")
	var stderr bytes.Buffer
	_, err := newFunction(t.Context(), app.Environment(), io.Discard, &stderr)
	if err == nil || !strings.Contains(stderr.String(),
		`Perhaps IDEMSK_KAFKA_BROKERS is meant.","variable":"IDEMSK_KAFKA_BROKER"`) {
		t.Errorf("error %v, log %q", err, stderr.String())
	}
}

// docs/configuration.md and the code list the same variables.
func TestConfigurationIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, ours, found := strings.Cut(string(page), "## The relay of")
	if !found {
		t.Fatal("docs/configuration.md has no section on the relay")
	}
	documented := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(IDEMSK_[A-Z_]+)`").FindAllStringSubmatch(ours, -1) {
		documented[row[1]] = ""
	}
	read := make(map[string]string)
	readConfig(app.NewVars(func(name string) (string, bool) {
		if strings.HasPrefix(name, "IDEMSK_") {
			read[name] = ""
		}
		return "", false
	}))
	if !maps.Equal(read, documented) {
		t.Errorf("documented %q; read %q", slices.Sorted(maps.Keys(documented)),
			slices.Sorted(maps.Keys(read)))
	}
}
