package outbox_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/outbox"
)

type recorder struct {
	events []outbox.Event
	err    error
}

func (r *recorder) Record(_ context.Context, events []outbox.Event) error {
	r.events = append(r.events, events...)
	return r.err
}

func TestPublishWritesToTheTransactionOfTheContext(t *testing.T) {
	var r recorder
	ctx := outbox.NewContext(t.Context(), &r, 0)
	if err := outbox.Publish(ctx); err != nil || r.events != nil {
		t.Errorf("nothing to publish: %v, %v", err, r.events)
	}
	const id = "019A7C54-0000-7000-8000-00000000ABCD"
	if err := outbox.Publish(ctx, outbox.Event{Topic: "a"}, outbox.Event{Topic: "b", ID: id}); err != nil {
		t.Fatal(err)
	}
	if len(r.events) != 2 || r.events[0].Topic != "a" || r.events[0].ID == "" ||
		r.events[1].ID != strings.ToLower(id) {
		t.Errorf("%+v are recorded", r.events)
	}
	r.err = errors.New("the disk is full")
	if err := outbox.Publish(ctx, outbox.Event{Topic: "a", Key: []byte("alice")}); !errors.Is(err, r.err) ||
		!strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("%v", err)
	}
}

func TestPublishWithoutTransactionNamesTheRemedy(t *testing.T) {
	err := outbox.Publish(t.Context(), outbox.Event{Topic: "a"})
	if !errors.Is(err, outbox.ErrNoTransaction) || !strings.Contains(err.Error(), "pgoutbox.Outbox.Handler") {
		t.Errorf("%v", err)
	}
}

func TestInvalidEventsAreNamedAndNothingIsWritten(t *testing.T) {
	const id = "019a7c54-0000-7000-8000-000000000001"
	for says, e := range map[string]outbox.Event{
		"no topic":                    {},
		"name is invalid":             {Topic: "a b"},
		"up to 249 letters":           {Topic: ".."},
		"not a UUID":                  {Topic: "a", ID: "1"},
		"maximum is 300":              {Topic: "a", Value: make([]byte, 300)},
		"the header event-id is":      {Topic: "a", Headers: []outbox.Header{{Key: outbox.IDHeader}}},
		"the header Event-Id is":      {Topic: "a", Headers: []outbox.Header{{Key: "Event-Id", Value: []byte("x")}}},
		"the header EVENT-ID is":      {Topic: "a", Headers: []outbox.Header{{Key: "EVENT-ID"}}},
		"a header has no name":        {Topic: "a", Headers: []outbox.Header{{}}},
		"not UTF-8 or contains a NUL": {Topic: "a", Headers: []outbox.Header{{Key: "a\xff"}}},
		"or contains a NUL":           {Topic: "a", Headers: []outbox.Header{{Key: "a\x00"}}},
		"number 1, event \"" + id:     {ID: id},
		"another event of this cal":   {Topic: "a", ID: "019a7c54-0000-7000-8000-000000000000"},
	} {
		t.Run(says, func(t *testing.T) {
			var r recorder
			ctx := outbox.NewContext(t.Context(), &r, 300)
			err := outbox.Publish(ctx, outbox.Event{Topic: "good",
				ID: "019a7c54-0000-7000-8000-000000000000"}, e)
			if !errors.Is(err, outbox.ErrInvalidEvent) || !strings.Contains(err.Error(), says) {
				t.Errorf("%v", err)
			}
			if r.events != nil {
				t.Errorf("%+v are recorded", r.events)
			}
		})
	}
}

// A relay adds the event's ID in both headers, unless the event has an idempotency key itself.
func TestRecordHeadersContainTheID(t *testing.T) {
	h := func(key, value string) outbox.Header { return outbox.Header{Key: key, Value: []byte(value)} }
	for _, tc := range []struct{ own, want []outbox.Header }{
		{nil, []outbox.Header{h("event-id", "1"), h("idempotency-key", "1")}},
		{[]outbox.Header{h("a", "x")}, []outbox.Header{h("event-id", "1"), h("idempotency-key", "1"),
			h("a", "x")}},
		{[]outbox.Header{h("a", "x"), h("idempotency-key", "order-7")},
			[]outbox.Header{h("event-id", "1"), h("a", "x"), h("idempotency-key", "order-7")}},
		{[]outbox.Header{h("Idempotency-Key", "order-7")},
			[]outbox.Header{h("event-id", "1"), h("Idempotency-Key", "order-7")}},
	} {
		e := outbox.Event{ID: "1", Headers: tc.own}
		if got := e.RecordHeaders(); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q; want %q", got, tc.want)
		}
	}
	if outbox.KeyHeader != kafka.DefaultKeyHeader {
		t.Errorf("the relay sets %s; a consumer looks for %s", outbox.KeyHeader, kafka.DefaultKeyHeader)
	}
}

func TestEventSizeIsLimited(t *testing.T) {
	e := outbox.Event{ID: "019a7c54-0000-7000-8000-000000000001", Topic: "a", Key: []byte("key"),
		Value: []byte("value"), Headers: []outbox.Header{{Key: "h", Value: []byte("v")}}}
	if _, err := outbox.Prepare(t.Context(), []outbox.Event{e}, e.Size()); err != nil {
		t.Error(err)
	}
	if _, err := outbox.Prepare(t.Context(), []outbox.Event{e}, e.Size()-1); !errors.Is(err,
		outbox.ErrInvalidEvent) {
		t.Error(err)
	}
	if _, err := outbox.Prepare(t.Context(),
		[]outbox.Event{{Topic: "a", Value: make([]byte, outbox.DefaultMaxSize)}}, 0); !errors.Is(err,
		outbox.ErrInvalidEvent) {
		t.Error(err)
	}
}

func TestIDsAreUniqueAndGrow(t *testing.T) {
	events, err := outbox.Prepare(t.Context(), slices.Repeat([]outbox.Event{{Topic: "a"}}, 10_000), 0)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	last := ""
	for _, e := range events {
		if e.ID[14] != '7' || !strings.ContainsRune("89ab", rune(e.ID[19])) {
			t.Fatalf("%s is not of version 7", e.ID)
		}
		if seen[e.ID] {
			t.Fatalf("%s comes twice", e.ID)
		}
		seen[e.ID] = true
		if e.ID[:18] < last {
			t.Fatalf("%s comes after %s", e.ID, last)
		}
		last = e.ID[:18]
	}
}

// The headers of the context follow those of the event, and replace none. The caller's events do not change.
func TestEventsGetTheHeadersOfTheContext(t *testing.T) {
	ctx := outbox.WithHeaders(t.Context(), func(context.Context) []outbox.Header {
		return []outbox.Header{{Key: "traceparent", Value: []byte("of the context")}, {Key: "tracestate"}}
	})
	own := make([]outbox.Header, 1, 4)
	own[0] = outbox.Header{Key: "traceparent", Value: []byte("own")}
	events := []outbox.Event{{Topic: "a"}, {Topic: "a", Headers: own}}
	prepared, err := outbox.Prepare(ctx, events, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"traceparent=of the context tracestate=", "traceparent=own tracestate="} {
		var got []string
		for _, h := range prepared[i].Headers {
			got = append(got, h.Key+"="+string(h.Value))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("event %d has the headers %q; want %q", i, text, want)
		}
	}
	if len(events[1].Headers) != 1 || own[:2][1].Key != "" {
		t.Errorf("the caller's events were changed: %v", events)
	}
}
