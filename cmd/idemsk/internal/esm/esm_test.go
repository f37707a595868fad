package esm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/mskevent"
)

// function is an invoker that notes what it gets. All pollers share it.
type function struct {
	answer func(ctx context.Context, got []string) (esm.Answer, error) // nil: nothing ever fails

	mu     sync.Mutex
	calls  []string // the places of each event, as "payments-0@1 payments-1@0"
	closed int
}

func (f *function) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	b, err := mskevent.Parse(inv.Batch, inv.Payload)
	if err != nil {
		return esm.Answer{}, err
	}
	var got []string
	for _, p := range b.Partitions {
		for _, r := range p.Records {
			got = append(got, esm.Place{Partition: p.ID, Offset: r.Offset}.String())
		}
	}
	f.mu.Lock()
	f.calls = append(f.calls, strings.Join(got, " "))
	f.mu.Unlock()
	if f.answer == nil {
		return esm.Answer{Payload: []byte("null")}, nil
	}
	return f.answer(ctx, got)
}

func (f *function) Close(context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
}

func (f *function) invoker(context.Context, int) (esm.Invoker, error) { return f, nil }

// short is the calls with the topic's name left out.
func (f *function) short() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []string
	for _, c := range f.calls {
		calls = append(calls, strings.ReplaceAll(c, topic+"-", ""))
	}
	return calls
}

func failed() (esm.Answer, error) {
	return esm.Answer{RequestID: "id", FunctionError: "Unhandled", Message: "boom"}, nil
}

// naming is an answer that names records.
func naming(places ...string) (esm.Answer, error) {
	var items []string
	for _, p := range places {
		partition, offset, _ := strings.Cut(p, "@")
		items = append(items, fmt.Sprintf(`{"itemIdentifier":{"partition":%q,"offset":%s}}`, partition, offset))
	}
	return esm.Answer{Payload: []byte(`{"batchItemFailures":[` + strings.Join(items, ",") + `]}`)}, nil
}

// parts are those of a mapping that ends when nothing is left.
func parts(c *kfake.Cluster, invoker func(context.Context, int) (esm.Invoker, error)) esm.Parts {
	return esm.Parts{Brokers: c.ListenAddrs(), Invoker: invoker, Drain: drained()}
}

// watcher notes the events of a mapping.
type watcher struct {
	mu     sync.Mutex
	events []esm.Event
	seen   func(e esm.Event)
}

func (w *watcher) Observe(e esm.Event) {
	w.mu.Lock()
	w.events = append(w.events, e)
	w.mu.Unlock()
	if w.seen != nil {
		w.seen(e)
	}
}

// of counts the records of a kind of events.
func (w *watcher) of(kind esm.Kind) (events, records int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			events++
			records += e.Records
		}
	}
	return events, records
}

// letters is an on-failure destination.
type letters struct {
	mu       sync.Mutex
	failures []*esm.Failure
	refuse   int // so often
}

func (l *letters) String() string { return "the letters" }

func (l *letters) Send(_ context.Context, f *esm.Failure) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse > 0 {
		l.refuse--
		return errors.New("refused")
	}
	l.failures = append(l.failures, f)
	return nil
}

func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestEveryRecordOnceInOrder(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5)
	produce(t, c, 100, 0, 1, 2, 3, 4)
	cfg := config()
	cfg.BatchSize, cfg.Pollers = 30, 3
	f, w := new(function), new(watcher)
	p := parts(c, f.invoker)
	p.Observer = w
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	next, mixed := make(map[string]int), false
	for _, call := range f.short() {
		places := strings.Fields(call)
		if len(places) > 30 {
			t.Errorf("a batch of %d", len(places))
		}
		for _, place := range places {
			partition, offset, _ := strings.Cut(place, "@")
			if offset != fmt.Sprint(next[partition]) {
				t.Fatalf("%s came when offset %d was due", place, next[partition])
			}
			next[partition]++
			mixed = mixed || !strings.HasPrefix(place, places[0][:2])
		}
	}
	if len(next) != 5 || next["4"] != 100 || !mixed {
		t.Errorf("delivered %v, batches with several partitions: %v", next, mixed)
	}
	if _, n := w.of(esm.Committed); n != 500 {
		t.Errorf("%d records committed", n)
	}
	if f.closed != 3 {
		t.Errorf("%d of 3 pollers closed their invoker", f.closed)
	}
}

// The group's offsets win over the starting position, also those of the run before.
func TestStartingPositions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for i := range 3 {
		write(t, c, &kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.UnixMilli(int64(i+1) * 1000)})
	}
	for name, test := range map[string]struct {
		position string
		at       int64
		want     []string
	}{
		"horizon": {esm.TrimHorizon, 0, []string{"0@0 0@1 0@2"}}, "latest": {esm.Latest, 0, nil},
		"between": {esm.AtTimestamp, 1500, []string{"0@1 0@2"}}, "future": {esm.AtTimestamp, 1e6, nil},
	} {
		cfg := config()
		cfg.ConsumerGroup, cfg.StartingPosition = name, test.position
		if test.at > 0 {
			cfg.StartingPositionTimestamp = time.UnixMilli(test.at)
		}
		f := new(function)
		if err := run(t, cfg, parts(c, f.invoker)); err != nil {
			t.Fatal(err)
		}
		check(t, name, f.short(), test.want)
	}
	cfg := config()
	cfg.ConsumerGroup, cfg.StartingPosition = "horizon", esm.TrimHorizon
	write(t, c, &kgo.Record{Topic: topic, Value: []byte("x")})
	f := new(function)
	if err := run(t, cfg, parts(c, f.invoker)); err != nil {
		t.Fatal(err)
	}
	check(t, "the group's second run", f.short(), []string{"0@3"})
}

func TestLatestReadsWhatComes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 3, 0)
	cfg := config()
	cfg.StartingPosition, cfg.BatchSize = esm.Latest, 1
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) { stop(); return esm.Answer{}, nil }}
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(), Invoker: func(context.Context, int) (esm.Invoker, error) {
		go func() { // the positions are known when pollers get their invokers
			produce(t, c, 1, 0)
		}()
		return f, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@3"})
	if s := m.Partitions(); len(s) != 1 || s[0].Committed != 4 || s[0].InFlight != 0 {
		t.Errorf("%+v: what is done with when the mapping stops is committed", s)
	}
}

func TestAFailedBatchIsRetriedAsAWhole(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	produce(t, c, 2, 0, 1)
	n := 0
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		if n++; n <= 3 {
			return failed()
		}
		return esm.Answer{Payload: []byte("anything")}, nil // without ReportBatchItemFailures nobody looks at it
	}}
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observer = w
	cfg := config()
	cfg.BatchSize = 4
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	calls := f.short()
	if len(calls) != 4 || strings.Count(calls[0], "@") != 4 || calls[0] != calls[3] {
		t.Errorf("calls %q", calls)
	}
	if w.events[0].Kind != esm.Invoked || w.events[0].Err == nil || w.events[0].Err.Error() != "boom" {
		t.Errorf("%+v", w.events[0])
	}
}

// Without ReportBatchItemFailures the answer is not read, as on AWS: the observer is told what is lost by that, each record once.
func TestFailuresThatAreIgnored(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 4, 0)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		return esm.Answer{Payload: []byte(`{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-0","offset":1}},{"itemIdentifier":{"partition":"payments-0","offset":3}}]}`)}, nil
	}}
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observer, p.Faults = w, new(again)
	cfg := config()
	cfg.BatchSize = 4
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2 0@3", "0@0 0@1 0@2 0@3"})
	ignored, done := 0, 0
	for _, e := range w.events {
		if e.Kind == esm.Ignored {
			ignored += e.Records
		}
		if e.Kind == esm.Committed {
			done += e.Records
		}
	}
	if ignored != 2 || done != 2 {
		t.Errorf("%d ignored, %d done; want 2 and 2", ignored, done)
	}
}

func TestBisect(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 5, 0)
	f := &function{answer: func(_ context.Context, got []string) (esm.Answer, error) {
		if slices.Contains(got, "payments-0@3") {
			return failed()
		}
		return esm.Answer{}, nil
	}}
	cfg := config()
	cfg.BatchSize, cfg.BisectBatchOnFunctionError, cfg.MaximumRetryAttempts, cfg.OnFailure = 5, true, 1, "arn"
	l := new(letters)
	p := parts(c, f.invoker)
	p.Destination = l
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2 0@3 0@4", "0@0 0@1", "0@2 0@3 0@4", "0@2", "0@3 0@4", "0@3", "0@3", "0@4"})
	if len(l.failures) != 1 || len(l.failures[0].Records) != 1 || l.failures[0].Condition != esm.RetryAttemptsExhausted || l.failures[0].Records[0].Offset != 3 {
		t.Errorf("%+v", l.failures)
	}
}

func TestPartialResponses(t *testing.T) {
	t.Parallel()
	for retry, want := range map[string][]string{
		esm.RetryNamed:      {"0@0 0@1 0@2 0@3", "0@1", "0@1"},
		esm.RetryFromLowest: {"0@0 0@1 0@2 0@3", "0@1 0@2 0@3", "0@1 0@2 0@3"},
	} {
		c := newCluster(t, 1)
		produce(t, c, 4, 0)
		n := 0
		f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
			if n++; n <= 2 {
				return naming("payments-0@1")
			}
			return naming()
		}}
		cfg := config()
		cfg.Retry, cfg.BatchSize, cfg.FunctionResponseTypes = retry, 4, []string{esm.ReportBatchItemFailures}
		if err := run(t, cfg, parts(c, f.invoker)); err != nil {
			t.Fatal(err)
		}
		check(t, retry, f.short(), want)
	}
}

func TestAnUnreadableAnswerFailsTheBatch(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{`"ok"`, `{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-0","offset":99}}]}`} {
		c := newCluster(t, 1)
		produce(t, c, 2, 0)
		n := 0
		f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
			if n++; n == 1 {
				return esm.Answer{Payload: []byte(bad)}, nil
			}
			return naming()
		}}
		w := new(watcher)
		cfg := config()
		cfg.BatchSize, cfg.FunctionResponseTypes = 2, []string{esm.ReportBatchItemFailures}
		p := parts(c, f.invoker)
		p.Observer = w
		if err := run(t, cfg, p); err != nil {
			t.Fatal(err)
		}
		check(t, bad, f.short(), []string{"0@0 0@1", "0@0 0@1"})
		if n, _ := w.of(esm.Misanswered); n != 1 {
			t.Errorf("%d answers were found unreadable", n)
		}
	}
}

func TestRetriesThatAreUsedUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	produce(t, c, 2, 0, 1)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) { return failed() }}
	l, w := &letters{refuse: 2}, new(watcher)
	cfg := config()
	cfg.BatchSize, cfg.OnFailure, cfg.FunctionARN, cfg.EventSourceARN = 4, "arn", "arn:f", "arn:c"
	p := parts(c, f.invoker)
	p.Destination, p.Observer = l, w
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
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
			RecordsInfo                      map[string]struct{ FirstRecordOffset, LastRecordOffset, FirstRecordTimestamp, LastRecordTimestamp string }
		}
		Payload any
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Fatal(err)
	}
	info := message.KafkaBatchInfo
	if _, err := time.Parse("2006-01-02T15:04:05.000Z", message.Timestamp); err != nil || message.Version != "1.0" || message.Payload != nil {
		t.Errorf("%s: %v", body, err)
	}
	if r := message.RequestContext; r.RequestID != "id" || r.FunctionArn != "arn:f" || r.Condition != "RetryAttemptsExhausted" || r.ApproximateInvokeCount != 11 {
		t.Errorf("requestContext in %s", body)
	}
	if r := message.ResponseContext; r.StatusCode != http.StatusOK || r.ExecutedVersion != "$LATEST" || r.FunctionError != "Unhandled" {
		t.Errorf("responseContext in %s", body)
	}
	if r := info.RecordsInfo["payments-1"]; info.BatchSize != 4 || info.PayloadSize < 100 || info.EventSourceArn != "arn:c" ||
		info.BootstrapServers != c.ListenAddrs()[0] || len(info.RecordsInfo) != 2 || r.FirstRecordOffset != "0" || r.LastRecordOffset != "1" || r.LastRecordTimestamp == "" {
		t.Errorf("KafkaBatchInfo in %s", body)
	}
	if s := fmt.Sprint(w.events[len(w.events)-1].Kind); s != fmt.Sprint(esm.Committed) {
		t.Errorf("the last event is %s: what was given up is committed", s)
	}
	checkOtherShapes(t, l.failures[0])
}

// To a bucket goes the event too, to a topic each record.
func checkOtherShapes(t *testing.T, f *esm.Failure) {
	t.Helper()
	object, err := f.WithPayload()
	var inBucket struct{ Payload string }
	if err := errors.Join(err, json.Unmarshal(object, &inBucket)); err != nil {
		t.Fatal(err)
	}
	if b, err := mskevent.Parse("payload", []byte(inBucket.Payload)); err != nil || b.Len() != 4 {
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
	if r := toTopic; r.RequestContext.Condition != "RetriesExhausted" || r.RequestContext.FunctionArn != "arn:f:$LATEST" || r.KafkaBatchInfo.BatchSize != 1 ||
		r.KafkaBatchInfo.RecordsInfo != nil || r.KafkaBatchInfo.RecordInfo.Timestamp == "" || len(r.Payload.Records) != 1 {
		t.Errorf("%s", messages[1].Value)
	}
}

func TestADestinationThatRefusesEndsTheRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 2, 0)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) { return failed() }}
	cfg := config()
	cfg.OnFailure, cfg.MaximumRetryAttempts = "arn", 0
	p := parts(c, f.invoker)
	p.Destination = &letters{refuse: 100}
	err := run(t, cfg, p)
	if err == nil || !strings.Contains(err.Error(), "the letters did not take 2 records that are given up, from payments-0@0 on: refused") {
		t.Fatal(err)
	}
	// Nothing was committed: it all comes again.
	again := new(function)
	if err := run(t, config(), parts(c, again.invoker)); err != nil {
		t.Fatal(err)
	}
	check(t, "the next run", again.short(), []string{"0@0 0@1"})
}

func TestRecordsThatAreTooOldOrTooLarge(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "10000000"}))
	old := time.Now().Add(-time.Hour)
	write(t, c, &kgo.Record{Topic: topic, Value: []byte("a"), Timestamp: old}, &kgo.Record{Topic: topic, Value: []byte("b")},
		&kgo.Record{Topic: topic, Value: make([]byte, 5_000_000)})
	f, l := new(function), new(letters)
	cfg := config()
	cfg.OnFailure, cfg.MaximumRecordAge = "arn", esm.MinRecordAge
	p := parts(c, f.invoker)
	p.Destination = l
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@1"})
	var conditions []string
	for _, failure := range l.failures {
		conditions = append(conditions, fmt.Sprint(failure.Condition, " ", failure.Records[0].Offset))
		if body, err := failure.Metadata(); err != nil || !strings.Contains(string(body), `"responseContext":null`) {
			t.Errorf("%s, %v: the function was not invoked", body, err)
		}
	}
	slices.Sort(conditions)
	check(t, "conditions", conditions, []string{"MaximumPayloadSizeExceeded 2", "RecordAgeExceeded 0"})
}

func TestFilteredRecordsAreCommitted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	write(t, c, &kgo.Record{Topic: topic, Value: []byte(`{"u":"a"}`)}, &kgo.Record{Topic: topic, Value: []byte(`{"u":"b"}`)},
		&kgo.Record{Topic: topic, Value: []byte(`{"u":"c"}`)})
	for want, pattern := range map[string]string{"0@1": `["b"]`, "": `["x"]`} {
		f, w := new(function), new(watcher)
		cfg := config()
		cfg.ConsumerGroup = "group" + want
		cfg.FilterCriteria = fmt.Sprintf(`{"Filters":[{"Pattern":%q}]}`, `{"value":{"u":`+pattern+`}}`)
		p := parts(c, f.invoker)
		p.Observer = w
		if err := run(t, cfg, p); err != nil { // it ends: nothing lags
			t.Fatal(err)
		}
		check(t, pattern, f.short(), strings.Fields(want))
		if _, n := w.of(esm.Filtered); n != 3-len(strings.Fields(want)) {
			t.Errorf("%d filtered", n)
		}
	}
}

func TestFunctionThatCannotBeInvoked(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 1, 0)
	n := 0
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) {
		if n++; n <= 3 {
			return esm.Answer{}, &esm.UnavailableError{Err: errors.New("throttled")}
		}
		return esm.Answer{}, nil
	}}
	cfg := config()
	cfg.MaximumRetryAttempts = 0 // throttles don't count
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observer = w
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	if k, _ := w.of(esm.Unavailable); k != 3 {
		t.Errorf("%d times unavailable", k)
	}
	broken := errors.New("no such function")
	f = &function{answer: func(context.Context, []string) (esm.Answer, error) { return esm.Answer{}, broken }}
	produce(t, c, 1, 0)
	if err := run(t, cfg, parts(c, f.invoker)); !errors.Is(err, broken) || f.closed != 1 {
		t.Errorf("%v, closed %d", err, f.closed)
	}
}

// again repeats the first batch once.
type again struct{ done bool }

func (a *again) Again(first esm.Place) bool {
	if a.done {
		return false
	}
	a.done = true
	return first.String() == "payments-0@0"
}

func TestAFinishedBatchAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 2, 0)
	f := new(function)
	cfg := config()
	cfg.BatchSize = 1
	p := parts(c, f.invoker)
	p.Faults = new(again)
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0", "0@0", "0@1"})
}

// What is with the function when the mapping stops is waited for, and committed as far as it is done with.
func TestStop(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 4, 0)
	ctx, stop := context.WithCancel(t.Context())
	f := &function{answer: func(_ context.Context, got []string) (esm.Answer, error) {
		stop()
		return naming(got[2], got[3])
	}}
	cfg := config()
	cfg.BatchSize, cfg.FunctionResponseTypes = 4, []string{esm.ReportBatchItemFailures}
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(), Invoker: f.invoker})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	check(t, "calls", f.short(), []string{"0@0 0@1 0@2 0@3"})
	next := new(function)
	if err := run(t, cfg, parts(c, next.invoker)); err != nil {
		t.Fatal(err)
	}
	check(t, "the next run", next.short(), []string{"0@2 0@3"})
}

// A function that goes on for longer than its timeout is cut off, and nothing of its batch is committed.
func TestStopCutsOffAfterTheTimeout(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 1, 0)
	ctx, stop := context.WithCancel(t.Context())
	f := &function{answer: func(ctx context.Context, _ []string) (esm.Answer, error) {
		stop()
		<-ctx.Done()
		return esm.Answer{}, context.Cause(ctx)
	}}
	cfg := config()
	cfg.Timeout = time.Second
	m, err := esm.New(cfg, esm.Parts{Brokers: c.ListenAddrs(), Invoker: f.invoker})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if s := m.Partitions(); s[0].Committed != 0 {
		t.Errorf("%+v", s)
	}
}

// What was given up counts once and not as done, also when its batch is delivered again, as a fault.
func TestWhatIsGivenUpIsNotDone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	produce(t, c, 4, 0)
	f := &function{answer: func(context.Context, []string) (esm.Answer, error) { return naming("payments-0@1", "payments-0@2") }}
	cfg := config()
	cfg.BatchSize, cfg.MaximumRetryAttempts, cfg.FunctionResponseTypes = 4, 0, []string{esm.ReportBatchItemFailures}
	w := new(watcher)
	p := parts(c, f.invoker)
	p.Observer, p.Faults = w, new(again)
	if err := run(t, cfg, p); err != nil {
		t.Fatal(err)
	}
	_, lost := w.of(esm.GivenUp)
	_, done := w.of(esm.Committed)
	if lost != 2 || done != 2 || len(f.short()) != 2 {
		t.Errorf("%d records given up and %d done in %d invocations; want 2, 2, and 2", lost, done, len(f.short()))
	}
}

// While one poller is stuck the other goes on with its partitions.
func TestPollersWorkSideBySide(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	produce(t, c, 3, 0, 1)
	other := make(chan struct{})
	var once sync.Once
	f := &function{answer: func(ctx context.Context, got []string) (esm.Answer, error) {
		if strings.HasPrefix(got[0], "payments-0") {
			select {
			case <-other:
			case <-ctx.Done():
				return esm.Answer{}, context.Cause(ctx)
			}
		} else if got[0] == "payments-1@2" {
			once.Do(func() { close(other) })
		}
		return esm.Answer{}, nil
	}}
	cfg := config()
	cfg.Pollers, cfg.BatchSize = 8, 1 // more than there are partitions
	if err := run(t, cfg, parts(c, f.invoker)); err != nil {
		t.Fatal(err)
	}
	if n := len(f.short()); n != 6 {
		t.Errorf("%d invocations", n)
	}
}
