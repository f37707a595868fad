package redrive_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/clitest"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/redrive"
	"github.com/idemsk/idemsk/kafka"
)

// springRecord returns what Spring publishes for the record payments-2@258.
func springRecord() *kgo.Record {
	header := func(name, value string) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name, Value: []byte(value)}
	}
	return &kgo.Record{Topic: deadLetters, Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{
		header("trace", "t"), header("kafka_dlt-original-topic", "payments"),
		header("kafka_dlt-original-partition", "\x00\x00\x00\x02"),
		header("kafka_dlt-original-offset", "\x00\x00\x00\x00\x00\x00\x01\x02"),
		header("kafka_dlt-exception-fqcn", "java.lang.IllegalStateException"),
		header("kafka_dlt-exception-message", "no such account"),
	}}
}

// A topic may have letters of idemsk, AWS and Spring. Each record is sent back once, without what was added
// to it.
func TestTopicOfSeveralPrograms(t *testing.T) {
	t.Parallel()
	c := newLetterCluster(t)
	sendLetters(t, c, letter(1))
	bad := springRecord()
	bad.Headers = bad.Headers[:2]
	own := letter(3) // of a record that came back from Spring's topic before
	own.Headers = []kafka.DeadHeader{{Key: "kafka_dlt-original-topic", Value: []byte("other")}}
	produce(t, c, springRecord(), bad, &kgo.Record{Topic: deadLetters, Value: []byte(
		`{"KafkaBatchInfo":{},"payload":{"records":{"payments-2":[{"offset":4,"key":"aw==","value":"dg=="}]}}}`)})
	sendLetters(t, c, own)
	k := dial(t, c)
	want := "0 redriven, 1 redriven, 2 not a dead letter, 3 redriven, 4 redriven"
	for range 2 {
		results, _ := runAll(t, redrive.Options{Source: openTopic(t, k), Destination: k})
		if got := strings.ReplaceAll(outcomes(results), deadLetters+"-0@", ""); got != want {
			t.Errorf("%s; want %s", got, want)
		}
		if len(results) > 1 && (results[1].Source != "payments-2@258" ||
			results[1].Cause != "java.lang.IllegalStateException: no such account") {
			t.Errorf("%+v", results[1])
		}
		want = "2 not a dead letter"
	}
	for i, r := range consume(t, c, 2, 2) {
		if string(r.Key) != "k" || string(r.Value) != "v" || len(r.Headers) != 1-i {
			t.Errorf("%+v; want the record as it was", r)
		}
	}
}

// giveUp runs idemsk local, whose event source gives n payments up, to a destination.
func giveUp(t *testing.T, brokers, destination string, args ...string) {
	t.Helper()
	r := clitest.Run(t, append([]string{"local", "--function", handler, "--brokers", brokers, "--produce", "40",
		"--until-drained", "--maximum-retry-attempts", "0", "--store", "none", "--on-failure", destination,
		"--log", clitest.File(t, "function.log", "")}, args...)...)
	if r.Code != 0 || !strings.Contains(r.Out, "at the on-failure destination") {
		t.Fatalf("%+v", r)
	}
}

// bucketServer is an S3 with one bucket.
type bucketServer struct {
	mu      sync.Mutex
	objects map[string][]byte
}

func (s *bucketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/gave-up/")
	switch r.Method {
	case http.MethodPut:
		s.objects[key], _ = io.ReadAll(r.Body)
	case http.MethodDelete:
		delete(s.objects, key)
	case http.MethodGet:
		if r.URL.Query().Get("list-type") == "" {
			_, _ = w.Write(s.objects[key])
			return
		}
		var list strings.Builder
		for key := range s.objects {
			list.WriteString("<Contents><Key>" + key + "</Key></Contents>")
		}
		_, _ = io.WriteString(w, "<ListBucketResult>"+list.String()+"</ListBucketResult>")
	}
}

// What an event source mapping gives up, idemsk redrive sends back, whatever destination has it: 40 payments
// are in their topic twice then.
func TestRedriveOfWhatAnEventSourceGaveUp(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	bucket := &bucketServer{objects: make(map[string][]byte)}
	s3 := httptest.NewServer(bucket)
	t.Cleanup(s3.Close)
	for name, tc := range map[string]struct {
		destination string
		local       []string
		redrive     []string
	}{
		"a topic": {"kafka://letters", nil, []string{"--dead-letter-topic", "letters"}},
		"a queue": {c.queue, []string{"--endpoint-url", c.url}, []string{"--queue-url", c.queue}},
		"a bucket": {"s3://gave-up", []string{"--endpoint-url", s3.URL},
			[]string{"--bucket", "s3://gave-up/aws/lambda/"}},
	} {
		brokers := clitest.NewCluster(t, kfake.SeedTopics(3, "payments"), kfake.SeedTopics(1, "letters"))
		giveUp(t, brokers, tc.destination, tc.local...)
		args := slices.Concat([]string{"redrive", "--brokers", brokers, "--yes", "--json"}, tc.redrive, tc.local)
		r := clitest.Run(t, args...)
		if r.Code != 0 || strings.Count(r.Out, `"redriven"`) < 40 ||
			!strings.Contains(r.Out, `"function":"idemsk-local"`) {
			t.Errorf("%s: exit %d, %s\n%.2000s", name, r.Code, r.Err, r.Out)
		}
		n := strings.Count(r.Out, `"redriven"`)
		count := make(map[string]int)
		for _, record := range clitest.ReadTopic(t, brokers, "payments", 2*n) {
			count[record]++
		}
		for record, times := range count {
			if times%2 > 0 {
				t.Errorf("%s: %d times %s", name, times, record)
			}
		}
		if again := clitest.Run(t, args...); again.Code != 0 || again.Out != "" {
			t.Errorf("%s: nothing is left: %+v", name, again)
		}
	}
	if len(bucket.objects) > 0 {
		t.Errorf("objects are left: %d", len(bucket.objects))
	}
}

// A queue that subscribes to the destination's SNS topic gets the records in notifications.
func TestRedriveOfNotifications(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	k := newCluster(t)
	fillPayments(t, k, 1, 2)
	body, err := json.Marshal(map[string]string{"Type": "Notification",
		"Message": string(onFailure(2, "1:0-1"))})
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	in := &sqs.SendMessageInput{QueueUrl: &c.queue, MessageBody: &text}
	if _, err := c.sqs.SendMessage(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(c.queue)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"redrive", "--queue-url", c.url + u.Path}
	if r := clitest.Run(t, append(args, "--dry-run")...); r.Code != 1 ||
		!strings.Contains(strings.Join(strings.Fields(r.Err), " "), "give --brokers to read them from Kafka") {
		t.Errorf("without Kafka: %+v", r)
	}
	args = append(args, "--brokers", strings.Join(k.ListenAddrs(), ","))
	if r := clitest.Run(t, append(args, "--dry-run")...); r.Code != 0 ||
		strings.Count(r.Out, "would redrive") != 2 ||
		!strings.Contains(r.Out, "RetryAttemptsExhausted: Unhandled") {
		t.Errorf("a dry run: %+v", r)
	}
	if r := clitest.Run(t, append(args, "--yes")...); r.Code != 0 || c.letters(t) != 0 {
		t.Errorf("%+v, %d messages left", r, c.letters(t))
	}
	want := []string{"k0 v h=x", "k0 v h=x", "k1 v h=x", "k1 v h=x"}
	got := clitest.ReadTopic(t, args[len(args)-1], "payments", 4)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}
