package esm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

func TestExhaustedRetries(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	produce(t, c, 2, 0, 1)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) { return failed() }}
	l, w := &letters{refuse: 2}, new(watcher)
	cfg := config()
	cfg.BatchSize, cfg.OnFailure, cfg.FunctionARN, cfg.EventSourceARN = 4, "arn", "arn:f", "arn:c"
	p := parts(c, f.invoker)
	p.Destination, p.Observe = l, w.Observe
	mustRun(t, cfg, p)
	if n := len(f.short()); n != 11 {
		t.Errorf("%d invocations; with an on-failure destination infinite retries are 10", n)
	}
	if len(l.failures) != 1 || len(l.failures[0].Records) != 4 {
		t.Fatalf("%+v", l.failures)
	}
	body, err := l.failures[0].Metadata()
	if err != nil {
		t.Fatal(err)
	}
	var message struct {
		RequestContext struct {
			RequestID, FunctionArn, Condition string
			ApproximateInvokeCount            int
		}
		ResponseContext struct {
			StatusCode                     int
			ExecutedVersion, FunctionError string
		}
		Version, Timestamp string
		KafkaBatchInfo     struct {
			BatchSize, PayloadSize           int
			EventSourceArn, BootstrapServers string
			RecordsInfo                      map[string]struct {
				FirstRecordOffset, LastRecordOffset,
				FirstRecordTimestamp, LastRecordTimestamp string
			}
		}
		Payload any
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Fatal(err)
	}
	info := message.KafkaBatchInfo
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", message.Timestamp); err != nil ||
		message.Version != "1.0" || message.Payload != nil {
		t.Errorf("%s: %v", body, err)
	}
	if r := message.RequestContext; r.RequestID != "id" || r.FunctionArn != "arn:f" ||
		r.Condition != "RetryAttemptsExhausted" || r.ApproximateInvokeCount != 11 {
		t.Errorf("requestContext in %s", body)
	}
	if r := message.ResponseContext; r.StatusCode != http.StatusOK || r.ExecutedVersion != "$LATEST" ||
		r.FunctionError != "Unhandled" {
		t.Errorf("responseContext in %s", body)
	}
	if r := info.RecordsInfo["payments-1"]; info.BatchSize != 4 || info.PayloadSize < 100 ||
		info.EventSourceArn != "arn:c" ||
		info.BootstrapServers != c.ListenAddrs()[0] || len(info.RecordsInfo) != 2 ||
		r.FirstRecordOffset != "0" || r.LastRecordOffset != "1" || r.LastRecordTimestamp == "" {
		t.Errorf("KafkaBatchInfo in %s", body)
	}
	if s := fmt.Sprint(w.events[len(w.events)-1].Kind); s != fmt.Sprint(esm.Committed) {
		t.Errorf("the last event is %s: records that were given up are committed", s)
	}
	checkOtherShapes(t, l.failures[0])
}

// A bucket gets the event too, and a topic each record.
func checkOtherShapes(t *testing.T, f *esm.Failure) {
	t.Helper()
	object, err := f.WithPayload()
	var inBucket struct{ Payload string }
	if err := errors.Join(err, json.Unmarshal(object, &inBucket)); err != nil {
		t.Fatal(err)
	}
	if b, err := mskevent.Parse("payload", []byte(inBucket.Payload)); err != nil || len(b.Records) != 4 {
		t.Errorf("the object's payload %q: %v", inBucket.Payload, err)
	}
	messages, err := f.TopicMessages()
	if err != nil || len(messages) != 4 || string(messages[0].Key) != "k" {
		t.Fatalf("%+v, %v", messages, err)
	}
	var toTopic struct {
		RequestContext struct{ FunctionArn, Condition string }
		KafkaBatchInfo struct {
			BatchSize   int
			RecordInfo  struct{ Offset, Timestamp string }
			RecordsInfo any
		}
		Payload struct {
			Records map[string][]struct{ Offset int64 }
		}
	}
	if err := json.Unmarshal(messages[1].Value, &toTopic); err != nil {
		t.Fatal(err)
	}
	if r := toTopic; r.RequestContext.Condition != "RetriesExhausted" ||
		r.RequestContext.FunctionArn != "arn:f:$LATEST" || r.KafkaBatchInfo.BatchSize != 1 ||
		r.KafkaBatchInfo.RecordsInfo != nil || r.KafkaBatchInfo.RecordInfo.Timestamp == "" ||
		len(r.Payload.Records) != 1 {
		t.Errorf("%s", messages[1].Value)
	}
}

func TestRefusalOfTheDestinationEndsTheRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 2, 0)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) { return failed() }}
	cfg := config()
	cfg.OnFailure, cfg.MaximumRetryAttempts = "arn", 0
	p := parts(c, f.invoker)
	p.Destination = &letters{refuse: 100}
	err := run(t, cfg, p)
	if err == nil || !strings.Contains(err.Error(),
		"the letters rejected 2 records that are given up, from payments-0@0 on: refused") {
		t.Fatal(err)
	}
	// Nothing was committed: all records are redelivered.
	again := new(function)
	mustRun(t, config(), parts(c, again.invoker))
	check(t, "the next run", again.short(), []string{"0@0 0@1"})
}

func TestTooOldAndTooLargeRecordsAreGivenUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "10000000"}))
	old := time.Now().Add(-time.Hour)
	write(t, c, &kgo.Record{Topic: topic, Value: []byte("a"), Timestamp: old},
		&kgo.Record{Topic: topic, Value: []byte("b")},
		&kgo.Record{Topic: topic, Value: make([]byte, 5_000_000)})
	f, l := new(function), new(letters)
	cfg := config()
	cfg.OnFailure, cfg.MaximumRecordAge = "arn", esm.MinRecordAge
	p := parts(c, f.invoker)
	p.Destination = l
	mustRun(t, cfg, p)
	check(t, "calls", f.short(), []string{"0@1"})
	var conditions []string
	for _, failure := range l.failures {
		conditions = append(conditions, fmt.Sprint(failure.Condition, " ", failure.Records[0].Offset))
		if body, err := failure.Metadata(); err != nil ||
			!strings.Contains(string(body), `"responseContext":null`) {
			t.Errorf("%s, %v: the function was not invoked", body, err)
		}
	}
	slices.Sort(conditions)
	check(t, "conditions", conditions, []string{"MaximumPayloadSizeExceeded 2", "RecordAgeExceeded 0"})
}

// A record that was given up counts once and not as done, also if a fault delivers its batch again.
func TestRecordsGivenUpAreNotDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 4, 0)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		return naming("payments-0@1", "payments-0@2")
	}}
	cfg := config()
	cfg.BatchSize, cfg.MaximumRetryAttempts, cfg.FunctionResponseTypes = 4, 0,
		[]string{esm.ReportBatchItemFailures}
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observe, p.Faults = w.Observe, new(again)
	mustRun(t, cfg, p)
	_, lost := w.of(esm.GivenUp)
	_, done := w.of(esm.Committed)
	if lost != 2 || done != 2 || len(f.short()) != 2 {
		t.Errorf("%d records given up and %d done in %d invocations; want 2, 2, and 2", lost, done,
			len(f.short()))
	}
}
