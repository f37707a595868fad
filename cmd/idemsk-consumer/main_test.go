package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
	"github.com/idemsk/idemsk/app/process"
	"github.com/idemsk/idemsk/lambda/msk"
)

// programVariable makes the test binary the program.
const programVariable = "CONSUMER_TEST"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(programVariable) != "":
		main()
		return
	case os.Getenv(functionVariable) != "":
		printAndCrash()
	}
	goleak.VerifyTestMain(m)
}

const (
	topic   = "payments"
	letters = "payments-dead-letters"
	group   = "ledger"
)

// cluster starts a Kafka in this process.
func cluster(t *testing.T, partitions int32) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic),
		kfake.SeedTopics(1, letters))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// produce writes payments. Their keys are their idempotency keys.
func produce(t *testing.T, brokers []string, topic string, keys ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for _, key := range keys {
		records = append(records, &kgo.Record{Key: []byte(key), Value: []byte(`{"amount":1}`)})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// committed returns how many records are committed.
func committed(c *kfake.Cluster) (n int) {
	if info := c.GroupInfo(group); info != nil {
		for _, commit := range info.Commits[topic] {
			n += int(commit.Offset)
		}
	}
	return n
}

// run runs the program until n records are committed.
func run(t *testing.T, c *kfake.Cluster, n int, args []string, env map[string]string) {
	t.Helper()
	runTo(t, c, n, args, env, t.Output())
}

// runTo is run with a log.
func runTo(t *testing.T, c *kfake.Cluster, n int, args []string, env map[string]string, log io.Writer) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{
		"IDEMSK_KAFKA_BROKERS": strings.Join(c.ListenAddrs(), ","), "IDEMSK_KAFKA_TOPICS": topic,
		"IDEMSK_KAFKA_GROUP": group, "IDEMSK_STORE": "memory", "IDEMSK_KEY": "key",
		"IDEMSK_COMMIT_INTERVAL": "10ms", "IDEMSK_RETRY_DELAY": "0s",
		"IDEMSK_DEAD_LETTER_TOPIC": letters,
	}
	maps.Copy(all, env)
	vars := app.NewVars(func(name string) (string, bool) { s, ok := all[name]; return s, ok })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx, o.build, vars, log, parts()...) }()
	for ctx.Err() == nil && committed(c) < n {
		<-time.After(10 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Errorf("%d records are committed, want %d", committed(c), n)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// service is a web service that counts its effects.
type service struct {
	mu      sync.Mutex
	calls   int
	single  int            // calls that had one record and its key
	effects map[string]int // by key
	seen    map[string]int // how often a key was in a call
}

// ServeHTTP handles records. The keys say what becomes of them.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	body, _ := io.ReadAll(r.Body)
	event, err := msk.Decode(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	records := slices.Concat(event.Partitions...)
	if strings.HasSuffix(r.Header.Get("Idempotency-Key"), "#"+string(records[0].Key)) && len(records) == 1 {
		s.single++
	}
	var failed []map[string]any
	for i := range records {
		key := string(records[i].Key)
		s.seen[key]++
		item := map[string]any{"itemIdentifier": map[string]any{
			"partition": records[i].PartitionID(), "offset": records[i].Offset}}
		switch {
		case strings.HasPrefix(key, "invalid"):
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		case strings.HasPrefix(key, "broken") && s.seen[key] < 3: // alone too
			w.WriteHeader(http.StatusInternalServerError)
			return
		case strings.HasPrefix(key, "closed"):
			item["permanent"] = true
			failed = append(failed, item)
		case strings.HasPrefix(key, "later") && s.seen[key] == 1:
			failed = append(failed, item)
		default:
			s.effects[key]++
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"batchItemFailures": failed})
}

// A web service gets each payment, and its answers decide: failures of a record, of a call, and for good.
// Duplicates do not reach it.
func TestWebService(t *testing.T) {
	for name, tc := range map[string]struct {
		args    []string
		records string // in a call
	}{
		"single records":                    {nil, ""},
		"single records, one after another": {[]string{"--calls", "1"}, "1"},
		"batches":                           {nil, "1000"},
		"small batches at once":             {[]string{"--calls", "4"}, "10"},
	} {
		t.Run(name, func(t *testing.T) {
			single := strings.HasPrefix(name, "single")
			c := cluster(t, 3)
			var keys []string
			for i := range 100 {
				keys = append(keys, fmt.Sprint("payment-", i))
			}
			keys = append(keys, "invalid-1", "broken-1", "closed-1", "later-1")
			s := &service{effects: make(map[string]int), seen: make(map[string]int)}
			server := httptest.NewServer(s)
			defer server.Close()
			produce(t, c.ListenAddrs(), topic, append(keys, keys[:50]...)...) // the producer's duplicates
			env := map[string]string{}
			if tc.records != "" {
				env["IDEMSK_CALL_RECORDS"] = tc.records
			}
			run(t, c, len(keys)+50, append(tc.args, "--http", server.URL+"/records"), env)
			dead := map[string]bool{"invalid-1": true, "closed-1": true}
			for _, key := range keys {
				// an effect before the failure of its call happens again
				if n := s.effects[key]; dead[key] != (n == 0) || n > 2 || n > 1 && single {
					t.Errorf("%s has %d effects", key, n)
				}
			}
			if single != (s.single == s.calls) || s.single == 0 {
				t.Errorf("%d of %d calls have one record with its key", s.single, s.calls)
			}
			if got := deadLetters(t, c, len(dead)); len(got) != len(dead) || !got["invalid-1"] ||
				!got["closed-1"] {
				t.Errorf("the dead letters are %v", got)
			}
		})
	}
}

// deadLetters returns the keys of the first n dead letters.
func deadLetters(t *testing.T, c *kfake.Cluster, n int) map[string]bool {
	t.Helper()
	got := make(map[string]bool)
	for _, r := range deadRecords(t, c, n) {
		got[string(r.Key)] = true
	}
	return got
}

// deadRecords returns the first n dead letters.
func deadRecords(t *testing.T, c *kfake.Cluster, n int) (got []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(letters))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for len(got) < n && ctx.Err() == nil {
		client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, r) })
	}
	return got
}

// A wrong command line is refused by an error that says what to do.
func TestOptions(t *testing.T) {
	for args, says := range map[string]string{
		"":                              "give a handler: --http",
		"--http http://a --function b":  "not both",
		"--http http://a --calls 0":     "--calls is 0: want 1 to 1000",
		"--function a --timeout 16m":    "want at least 1s, and with --function at most 15m0s",
		"--http http://a --timeout 1ms": "--timeout is 1ms",
		"--function 'a":                 "ends inside a quote",
		"--function python app.handler": `"app.handler"] is no option`,
		"--http http://a http://u:p@b":  `["…"] is no option`,
		"--htpp http://a":               "there is no flag --htpp: is --http meant?",
		"--frobnicate":                  "there is no flag --frobnicate",
		"--http http://a --timeout 5":   `--timeout is "5": want --timeout duration`,
		"--http http://a --single":      "there is no flag --single",
	} {
		if _, err := parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error that says %q", args, err, says)
		}
	}
	o, err := parse([]string{"--function", "python -m 'a b'", "--calls", "3", "--timeout", "15m"})
	if err != nil || len(o.command) != 3 || o.command[2] != "a b" || o.calls != 3 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"--http", "http://a", "--timeout", "1h"}); err != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// A function's processes use memory of the program's container.
func TestMemoryIsSharedWithAFunction(t *testing.T) {
	for args, want := range map[string]bool{
		"--function ./no-such-file": true, "--http http://127.0.0.1:1": false,
	} {
		o, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		base := &app.Base{Vars: app.NewVars(os.LookupEnv)}
		_, _ = o.build(t.Context(), base)
		base.Close()
		if base.SharesMemory != want {
			t.Errorf("%s: %t; want %t", args, base.SharesMemory, want)
		}
	}
}

// A handler that can't be used is an error of the start.
func TestHandlerThatCannotBeUsed(t *testing.T) {
	for args, says := range map[string]string{
		"--http 127.0.0.1:8080":     "--http: ",
		"--function ./no-such-file": "--function: function ledger (./no-such-file) did not start",
	} {
		o, err := parse(strings.Fields(args))
		if err != nil {
			t.Fatal(err)
		}
		env := map[string]string{"IDEMSK_KAFKA_BROKERS": "127.0.0.1:1", "IDEMSK_KAFKA_TOPICS": topic,
			"IDEMSK_KAFKA_GROUP": group, "IDEMSK_STORE": "memory"}
		vars := app.NewVars(func(name string) (string, bool) { s, ok := env[name]; return s, ok })
		if err := process.Run(t.Context(), o.build, vars, t.Output()); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want an error that says %q", args, err, says)
		}
	}
}
