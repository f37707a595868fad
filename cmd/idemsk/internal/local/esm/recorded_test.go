package esm_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
	"github.com/idemsk/idemsk/internal/mskevent"
)

// recorded returns the parts and the configuration of a mapping for recorded events.
func recorded(t *testing.T, invoker esm.Invoker, payloads ...string) (esm.Config, esm.Parts) {
	t.Helper()
	c := config()
	c.Topics, c.ConsumerGroup = nil, ""
	for i, payload := range payloads {
		name := string(rune('a'+i)) + ".json"
		e, err := mskevent.Parse(name, []byte(payload))
		if err != nil {
			e = &mskevent.Event{Name: name, Payload: []byte(payload)}
		}
		c.Events = append(c.Events, e)
	}
	return c, esm.Parts{Drain: drained(),
		Invoker: func(context.Context, int) (esm.Invoker, error) { return invoker, nil }}
}

// script is an invoker that returns one answer after another, and records the payloads.
type script struct {
	answers []func() (esm.Answer, error)
	got     []string
}

func (s *script) Invoke(_ context.Context, inv *esm.Invocation) (esm.Answer, error) {
	s.got = append(s.got, string(inv.Payload))
	if n := len(s.got); n <= len(s.answers) && s.answers[n-1] != nil {
		return s.answers[n-1]()
	}
	return esm.Answer{Payload: []byte("[]")}, nil
}

func (s *script) Close(context.Context) {}

// Events are delivered unchanged. Records that the function names are delivered again before the next event.
func TestRecordedEvents(t *testing.T) {
	t.Parallel()
	const first = `{"eventSource":"SelfManagedKafka", "records":{
		"t-10":[{"offset":7,"value":42},{"offset":5}], "t-2":[{"offset":1}], "t-3":[]},"bootstrapServers":"b"}`
	s := &script{answers: []func() (esm.Answer, error){
		func() (esm.Answer, error) { return naming("t-10@7", "t-2@1") },
		failed,
	}}
	c, parts := recorded(t, s, first, `{"records":{}}`)
	c.FunctionResponseTypes = []string{esm.ReportBatchItemFailures}
	w := new(watcher)
	parts.Observe = w.Observe
	mustRun(t, c, parts)
	const again = `{"eventSource":"SelfManagedKafka","bootstrapServers":"b","records":{"t-10":[{"offset":7,"value":42}],"t-2":[{"offset":1}]}}`
	if want := []string{first, again, again, `{"records":{}}`}; !slices.Equal(s.got, want) {
		t.Errorf("the function got\n%s\nwant\n%s", strings.Join(s.got, "\n"), strings.Join(want, "\n"))
	}
	if events, records := w.of(esm.Committed); events != 2 || records != 3 {
		t.Errorf("%d events with %d records are finished, want 2 with 3", events, records)
	}
}

// A payload that is not an event has no records to retry. It is delivered once.
func TestPayloadThatIsNoEventIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	s := &script{answers: []func() (esm.Answer, error){failed}}
	c, parts := recorded(t, s, `{"Records":[]}`, `no JSON`)
	mustRun(t, c, parts)
	if want := []string{`{"Records":[]}`, `no JSON`}; !slices.Equal(s.got, want) {
		t.Errorf("the function got %q, want %q", s.got, want)
	}
}

// A recorded event is not finished if the run ends before all its records are delivered.
func TestUnfinishedRecordedEvent(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	s := &script{answers: []func() (esm.Answer,
		error){func() (esm.Answer, error) { stop(); return failed() }}}
	c, parts := recorded(t, s, `{"records":{"t-0":[{"offset":1}]}}`, `{"records":{"t-0":[{"offset":2}]}}`)
	m, err := esm.New(c, parts)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if states := m.Partitions(); len(s.got) != 1 || len(states) != 1 || states[0].Lag() != 2 {
		t.Errorf("%d invocations, %+v; want one, and nothing finished", len(s.got), states)
	}
}

// The on-failure destination gets the records of a recorded event in their envelope.
func TestRecordedEventThatIsGivenUp(t *testing.T) {
	t.Parallel()
	s := &script{answers: []func() (esm.Answer, error){failed}}
	c, parts := recorded(t, s, `{"own":"field","records":{"t-0":[{"offset":1,"timestamp":1000,"key":"!"}]}}`)
	d := new(letters)
	c.MaximumRetryAttempts, c.OnFailure, parts.Destination = 0, "arn:aws:s3:::b", d
	mustRun(t, c, parts)
	if len(d.failures) != 1 {
		t.Fatalf("%d failures were sent, want 1", len(d.failures))
	}
	object, err := d.failures[0].WithPayload()
	if err != nil || !strings.Contains(string(object),
		`"payload":"{\"own\":\"field\",\"records\":{\"t-0\":[{\"offset\":1,`) ||
		!strings.Contains(string(object), `"firstRecordTimestamp":"1970-01-01T00:00:01.000Z"`) {
		t.Errorf("%s, %v", object, err)
	}
}
