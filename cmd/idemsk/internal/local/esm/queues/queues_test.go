package queues_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm/queues"
	"github.com/idemsk/idemsk/internal/fake/sqsfake"
	"github.com/idemsk/idemsk/internal/mskevent"
	"github.com/idemsk/idemsk/internal/test/testkit"
	"github.com/idemsk/idemsk/internal/test/testkit/awstest"
	"github.com/idemsk/idemsk/lambda/sqs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a mapping with its queue, and the function, which answers each event by the test's function.
type fixture struct {
	*testing.T
	queues.Parts
	server *sqsfake.Server
	sent   int
	answer func(ctx context.Context, bodies []string) (esm.Answer, error)

	mu     sync.Mutex
	calls  []string // the bodies of each event
	events []esm.Event
}

func newFixture(t *testing.T, name, visibility string, bodies ...string) *fixture {
	t.Helper()
	f := &fixture{T: t, server: testkit.Serve(t, sqsfake.New, sqsfake.Config{})}
	drain := make(chan struct{})
	close(drain)
	f.Parts = queues.Parts{Client: awssqs.NewFromConfig(awstest.Config(t, f.server.URL())), Name: name,
		BatchSize: 10, Partial: true, Pollers: 1, Drain: drain, Observe: f.observe,
		Invoker: func(context.Context, int) (esm.Invoker, error) { return f, nil },
		Left:    func() int { return len(f.server.Bodies(f.URL)) }}
	f.answer = func(context.Context, []string) (esm.Answer, error) { return naming() }
	attributes := map[string]string{"VisibilityTimeout": visibility}
	if strings.HasSuffix(name, ".fifo") {
		attributes["FifoQueue"] = "true"
	}
	out, err := f.Client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	f.URL = *out.QueueUrl
	for _, body := range bodies {
		f.send(body)
	}
	return f
}

// send sends a message. In a FIFO queue its group is the first letter of its body.
func (f *fixture) send(body string) {
	f.Helper()
	in := &awssqs.SendMessageInput{QueueUrl: &f.URL, MessageBody: &body,
		MessageAttributes: map[string]types.MessageAttributeValue{
			"idempotency-key": {DataType: aws.String("String"), StringValue: &body},
			"bytes":           {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255}},
		}}
	if f.sent++; strings.HasSuffix(f.Name, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String(body[:1]), aws.String(fmt.Sprint(f.sent))
	}
	if _, err := f.Client.SendMessage(f.Context(), in); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) observe(e esm.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, e)
}

func (f *fixture) Invoke(ctx context.Context, inv *esm.Invocation) (esm.Answer, error) {
	event, err := sqs.Decode(inv.Payload)
	if err != nil {
		return esm.Answer{}, err
	}
	var bodies, ids []string
	for i := range event.Records {
		bodies = append(bodies, string(event.Records[i].Value))
		ids = append(ids, sqs.MessageID(&event.Records[i]))
	}
	f.mu.Lock()
	f.calls = append(f.calls, strings.Join(bodies, " "))
	f.mu.Unlock()
	answer, err := f.answer(ctx, bodies)
	for i, body := range bodies {
		answer.Payload = []byte(strings.ReplaceAll(string(answer.Payload), `"`+body+`"`, `"`+ids[i]+`"`))
	}
	return answer, err
}

func (f *fixture) Close(context.Context) {}

// naming returns an answer that names messages by their bodies.
func naming(bodies ...string) (esm.Answer, error) {
	items := []map[string]string{}
	for _, body := range bodies {
		items = append(items, map[string]string{"itemIdentifier": body})
	}
	out, err := json.Marshal(map[string]any{"batchItemFailures": items})
	return esm.Answer{Payload: out}, err
}

func (f *fixture) run() *queues.Mapping {
	f.Helper()
	m := queues.New(f.Parts)
	if err := m.Run(f.Context()); err != nil {
		f.Fatal(err)
	}
	return m
}

// count returns the number of records in events of a kind.
func (f *fixture) count(kind esm.Kind) (n int) {
	for _, e := range f.events {
		if e.Kind == kind {
			n += e.Records
		}
	}
	return n
}

func (f *fixture) wantCalls(want ...string) {
	f.Helper()
	if !slices.Equal(f.calls, want) {
		f.Errorf("calls %q, want %q", f.calls, want)
	}
}

// once returns an answer for the first invocation; the later ones name nothing.
func (f *fixture) once(first func() (esm.Answer, error)) {
	called := false
	f.answer = func(context.Context, []string) (esm.Answer, error) {
		if !called {
			called = true
			return first()
		}
		return naming()
	}
}

// What the answer names comes again, in a FIFO queue in order. Everything else is deleted.
func TestNamedMessagesComeAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "payments.fifo", "1", "a1", "b1", "a2", "a3", "b2")
	f.once(func() (esm.Answer, error) { return naming("a2", "a3") })
	m := f.run()
	f.wantCalls("a1 b1 a2 a3 b2", "a2 a3")
	state := m.Partitions()[0]
	if state.Committed != 5 || state.Lag() != 0 || state.InFlight != 0 {
		t.Errorf("state %+v", state)
	}
	if f.count(esm.Named) != 2 || f.count(esm.Committed) != 5 || f.count(esm.Invoked) != 7 {
		t.Errorf("events %+v", f.events)
	}
}

// After a failure, or an answer that can't be read, the whole batch comes again.
func TestFailedBatchesComeAgain(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]func() (esm.Answer, error){
		"error": func() (esm.Answer, error) {
			return esm.Answer{FunctionError: "Unhandled", Message: "boom"}, nil
		},
		"away": func() (esm.Answer, error) {
			return esm.Answer{}, &esm.UnavailableError{Err: errors.New("throttled")}
		},
		"another": func() (esm.Answer, error) { return naming("nobody") },
		"no ID":   func() (esm.Answer, error) { return naming("") },
		"garbage": func() (esm.Answer, error) { return esm.Answer{Payload: []byte("[1")}, nil },
	} {
		f := newFixture(t, "payments", "0", "1", "2")
		f.once(first)
		f.run()
		f.wantCalls("1 2", "1 2")
		misanswered := f.count(esm.Misanswered) == 2
		if want := name != "error" && name != "away"; misanswered != want {
			t.Errorf("%s: an answer could not be read: %t", name, misanswered)
		}
	}
}

// Without ReportBatchItemFailures any answer is a success, as on AWS: what it names is lost.
func TestAnswersAreIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "payments", "0", "1", "2")
	f.Partial = false
	f.answer = func(context.Context, []string) (esm.Answer, error) { return naming("1") }
	f.run()
	f.wantCalls("1 2")
	if f.count(esm.Ignored) != 1 || f.Left() != 0 {
		t.Errorf("%d left, events %+v", f.Left(), f.events)
	}
}

// A batch has at most its size, also of several requests within the window.
func TestBatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "payments", "30", strings.Split("abcdefghijklmno", "")...)
	f.BatchSize, f.Window = 12, time.Minute
	f.run()
	f.wantCalls("a b c d e f g h i j k l", "m n o")
}

// A batch has as many messages as an event has room for.
func TestBatchesOfLargeMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "payments", "30")
	for range 10 {
		f.send(strings.Repeat("x", 450<<10)) // and an attribute of the same size
	}
	f.run()
	sizes := make([]int, len(f.calls))
	for i, bodies := range f.calls {
		sizes[i] = len(strings.Fields(bodies))
	}
	if !slices.Equal(sizes, []int{6, 4}) {
		t.Errorf("events of %d messages, want 6 and 4", sizes)
	}
}

// A message whose visibility timeout has ended comes again, also in the same batch. It is deleted once.
func TestMessageTwiceInABatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "payments", "0", "1", "2")
	f.BatchSize, f.Window = 4, time.Minute
	m := f.run()
	f.wantCalls("1 2 1 2")
	if state := m.Partitions()[0]; state.Committed != 2 || f.count(esm.Committed) != 2 {
		t.Errorf("state %+v, events %+v", state, f.events)
	}
}

type again struct{}

func (again) Again(first mskevent.Place) bool { return first.Offset == 1 }

func TestFaultDeliversABatchAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "payments", "30", "1", "2")
	f.BatchSize, f.Faults = 1, again{}
	f.run()
	f.wantCalls("1", "1", "2")
	if f.count(esm.Redelivered) != 1 {
		t.Errorf("events %+v", f.events)
	}
}

// A stop waits for the invocation, and deletes what is done. Cut aborts it.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, aborted := range []bool{false, true} {
		f := newFixture(t, "payments", "30", "1")
		f.Drain = nil
		cut, begun, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
		f.Cut = cut
		f.answer = func(ctx context.Context, _ []string) (esm.Answer, error) {
			close(begun)
			select {
			case <-ctx.Done():
				return esm.Answer{}, ctx.Err()
			case <-release:
				return naming()
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- queues.New(f.Parts).Run(ctx) }()
		<-begun
		stop()
		if aborted {
			close(cut)
		} else {
			close(release)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if left := f.Left(); (left == 1) != aborted {
			t.Errorf("aborted %t: %d left", aborted, left)
		}
	}
}

// An error that no retry helps ends the run: of the invoker, when it is made or called, and of the queue.
func TestErrorsEndTheRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	f := newFixture(t, "payments", "30", "1")
	f.answer = func(context.Context, []string) (esm.Answer, error) { return esm.Answer{}, broken }
	if err := queues.New(f.Parts).Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	f.Invoker = func(context.Context, int) (esm.Invoker, error) { return nil, broken }
	if err := queues.New(f.Parts).Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	g := newFixture(t, "payments", "30", "1")
	g.URL += "-that-does-not-exist"
	g.Left = func() int { return 1 }
	if err := queues.New(g.Parts).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "payments") {
		t.Errorf("error %v", err)
	}
}
