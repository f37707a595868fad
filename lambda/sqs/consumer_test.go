package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/sqs"
)

// Each key of the configuration works for messages: an attribute, the body, the ID, the group.
func TestKeys(t *testing.T) {
	path, err := kafka.JSONKey("$.paymentId")
	if err != nil {
		t.Fatal(err)
	}
	m := message{queue: fifo, id: id, key: "p-1", group: "acc-1", body: `{"paymentId":17}`}
	for want, key := range map[string]kafka.KeyFunc{
		"ledger#payments.fifo#p-1":   nil,
		"ledger#payments.fifo#17":    path,
		"ledger#payments.fifo#" + id: kafka.HeaderKey(sqs.MessageIDHeader),
		"ledger#payments.fifo#acc-1": kafka.RecordKey,
	} {
		f := newFixture(t)
		f.cfg.Records.Key = key
		for range 2 {
			equalSlices(t, "named", f.deliver(m))
		}
		entry, err := f.store.Get(t.Context(), want)
		if err != nil {
			t.Errorf("%s: %v", want, err)
		}
		equal(t, want, entry.Status, store.StatusCompleted)
		equal(t, want+": calls", len(f.calls), 1)
		equal(t, want+": replayed", f.reports[1].Replayed, 1)
	}
}

// Messages of a standard queue are independent, also those of one group, of which a fair queue has some.
func TestStandardQueueNamesOnlyTheFailedMessages(t *testing.T) {
	f := newFixture(t)
	f.handle = func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "2" {
			return errBoom
		}
		return nil
	}
	at := func(id string) message { return message{queue: standard, id: id, key: id, group: "tenant"} }
	equalSlices(t, "named", f.deliver(at("1"), at("2"), at("3")), "2")
	equal(t, "calls", len(f.calls), 3)
}

// With FIFO, a failed message stops its group, and no other one.
func TestFIFOGroupStopsAtItsFirstFailure(t *testing.T) {
	batch := []message{
		{queue: fifo, id: "a1", key: "a1", group: "a"}, {queue: fifo, id: "b1", key: "b1", group: "b"},
		{queue: fifo, id: "a2", key: "a2", group: "a"}, {queue: fifo, id: "b2", key: "b2", group: "b"},
		{queue: fifo, id: "a3", key: "a3", group: "a"},
	}
	for order, want := range map[kafka.Order]string{
		kafka.ByPartition: "a2 a3", kafka.ByKey: "a2 a3", kafka.Unordered: "a2",
	} {
		f := newFixture(t)
		f.cfg.Records.Order = order
		f.handle = func(_ context.Context, r kafka.Record) error {
			if string(r.Value) == "a2" && len(f.reports) == 0 {
				return errBoom
			}
			return nil
		}
		equal(t, "named", strings.Join(f.deliver(batch...), " "), want)
		equalSlices(t, "named after it was repaired", f.deliver(batch...))
		equal(t, "calls", len(f.calls), 6)
		if order != kafka.Unordered {
			equal(t, "the last calls", strings.Join(f.calls[len(f.calls)-2:], " "), "a2 a3")
		}
	}
}

// A bulk handler goes on after a failure. The rest of the group comes again in order, and is not executed again.
func TestSettledMessagesBehindAFailureAreNamed(t *testing.T) {
	f := newFixture(t)
	var calls []string
	handler := kafka.BulkHandler(func(_ context.Context, rs []kafka.Record) ([]error, error) {
		errs := make([]error, len(rs))
		for i := range rs {
			calls = append(calls, string(rs[i].Value))
			if string(rs[i].Value) == "2" && len(f.reports) == 0 {
				errs[i] = errBoom
			}
		}
		return errs, nil
	})
	engine, err := idem.New(f.store, f.engine)
	if err != nil {
		t.Fatal(err)
	}
	if f.consumer, err = sqs.New(engine, handler, f.cfg); err != nil {
		t.Fatal(err)
	}
	at := func(id string) message { return message{queue: fifo, id: id, key: id, group: "a"} }
	equalSlices(t, "named", f.deliver(at("1"), at("2"), at("3")), "2", "3")
	equalSlices(t, "named again", f.deliver(at("2"), at("3")))
	equalSlices(t, "calls", calls, "1", "2", "3", "2")
}

// A message that can't succeed becomes a dead letter, and its group goes on. The letter can be redriven to the
// function as the message that it was.
func TestDeadLetterAndItsRedrive(t *testing.T) {
	f := newFixture(t)
	f.handle = func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "1" {
			return idem.Permanent(errBoom)
		}
		return nil
	}
	equalSlices(t, "named", f.deliver(message{queue: fifo, id: "1", key: "k", group: "a"},
		message{queue: fifo, id: "2", key: "l", group: "a"}))
	equalSlices(t, "calls", f.calls, "1", "2")
	equal(t, "letters", len(f.letters), 1)
	l := f.letters[0]
	equal(t, "cluster", l.Cluster, "arn:aws:sqs:us-east-1:123456789012:payments.fifo")
	equal(t, "topic", l.Topic, fifo)
	equal(t, "key", l.IdempotencyKey, "ledger#payments.fifo#k")

	f.handle = func(context.Context, kafka.Record) error { return nil }
	answer, err := f.consumer.Invoke(t.Context(), redriven.Event(&l))
	if err != nil {
		t.Fatal(err)
	}
	what, err := redriven.Verdict(&l, answer)
	if err != nil {
		t.Error(err)
	}
	equal(t, "verdict", what, "executed")
	equalSlices(t, "calls", f.calls, "1", "2", "1")
	entry, err := f.store.Get(t.Context(), l.IdempotencyKey)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "status", entry.Status, store.StatusCompleted)
}

// A dead letter can also be sent to the queue again, with its token in an attribute.
func TestRedriveThroughTheQueue(t *testing.T) {
	f := newFixture(t)
	f.handle = func(context.Context, kafka.Record) error { return idem.Permanent(errBoom) }
	equalSlices(t, "named", f.deliver(message{queue: standard, id: "1", key: "k", body: "{}"}))
	f.handle = func(context.Context, kafka.Record) error { return nil }
	again := func(id string, token int64) {
		equalSlices(t, "named", f.deliver(message{queue: standard, id: id, body: "{}", raw: map[string]any{
			"messageAttributes": map[string]any{
				"idempotency-key": map[string]any{"stringValue": "k", "dataType": "String"},
				"idemsk-redrive":  map[string]any{"stringValue": fmt.Sprint(token), "dataType": "Number"},
			}}}))
	}
	again("2", f.letters[0].Token-1)
	equal(t, "calls with an older token", len(f.calls), 1)
	again("3", f.letters[0].Token)
	equal(t, "calls with the token", len(f.calls), 2)
	equal(t, "letters", len(f.letters), 1)
}

// Two messages that can't be decoded have letters of their own, and no key.
func TestUndecodableMessagesBecomeDeadLetters(t *testing.T) {
	f := newFixture(t)
	f.cfg.Records.MissingKey = kafka.Process
	bad := map[string]any{"body": nil}
	batch := []message{{queue: standard, id: "1", key: "k", raw: bad},
		{queue: standard, id: "2", key: "k", raw: bad}, {queue: standard, id: "3"}, {queue: standard, id: "4"}}
	for range 2 {
		equalSlices(t, "named", f.deliver(batch...))
	}
	equal(t, "calls", len(f.calls), 2)
	equal(t, "letters", len(f.letters), 2)
	equal(t, "their IDs differ", f.letters[0].ID() != f.letters[1].ID(), true)
	wantContains(t, string(f.letters[0].Undecoded), `"messageId":`)
	wantContains(t, f.letters[0].Error.Message, "body: it is missing")
}

// A standard queue may deliver a message twice in a batch.
func TestMessageTwiceInABatch(t *testing.T) {
	f := newFixture(t)
	m := message{queue: standard, id: "1", key: "k"}
	equalSlices(t, "named", f.deliver(m, m))
	equal(t, "calls", len(f.calls), 1)
	f.handle = func(context.Context, kafka.Record) error { return errBoom }
	other := message{queue: standard, id: "2", key: "l"}
	equalSlices(t, "named", f.deliver(other, other), "2")
}

func TestFailBatch(t *testing.T) {
	f := newFixture(t)
	f.cfg.Failures = eventsource.FailBatch
	f.handle = func(_ context.Context, r kafka.Record) error {
		if string(r.Value) == "2" {
			return errBoom
		}
		return nil
	}
	_, err := f.invoke(t.Context(), event(message{queue: standard, id: "1", key: "1"},
		message{queue: standard, id: "2", key: "2"}))
	var failed *eventsource.BatchError
	if !errors.As(err, &failed) || !errors.Is(err, errBoom) {
		t.Fatalf("error %v", err)
	}
	equal(t, "message", err.Error(), "1 of 2 records are to be delivered again; payments/2: boom")
	equal(t, "reported", f.reports[0].Reported, 1)
	equal(t, "lines of the batch with the error", len(f.lines("payments/2: boom")), 1)
}

// The visibility timeout ended, and the message came again while its handler still runs.
func TestWarningOfAShortVisibilityTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		release := make(chan struct{})
		f.handle = func(context.Context, kafka.Record) error {
			<-release
			return nil
		}
		f.start()
		m := message{queue: standard, id: "1", key: "k"}
		ended := make(chan []string)
		go func() { ended <- f.deliver(m) }()
		synctest.Wait()
		again := func(m message) []string {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			ids, err := f.invoke(ctx, event(m))
			if err != nil {
				t.Error(err)
			}
			return ids
		}
		const warning = "the visibility timeout of the queue is too short"
		m.body = "1"
		equalSlices(t, "another message with its key", again(message{queue: standard, id: "2", key: "k",
			body: "1"}), "2")
		equal(t, "warnings of another message", len(f.lines(warning)), 0)
		equalSlices(t, "the message again", again(m), "1")
		equal(t, "warnings", len(f.lines(warning)), 1)
		wantContains(t, f.lines(warning)[0], `"message":"payments/1"`)
		close(release)
		equalSlices(t, "the message", <-ended)
	})
}

func TestOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		release := make(chan struct{})
		f.handle = func(context.Context, kafka.Record) error {
			<-release
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := f.invoke(ctx, event(message{queue: standard, id: "1", key: "k"}))
		if !errors.Is(err, idem.ErrOverrun) {
			t.Fatalf("error %v", err)
		}
		wantContains(t, err.Error(), "payments/1")
		close(release)
	})
}

func TestConfiguration(t *testing.T) {
	f := newFixture(t)
	engine, err := idem.New(f.store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sqs.New(engine, nil, eventsource.Config{Failures: 7, Records: kafka.Config{Logger: slog.Default()}})
	if !errors.Is(err, idem.ErrInvalidConfig) {
		t.Errorf("error %v", err)
	}
	wantContains(t, err.Error(), "handler is nil", "Failures is 7")
}
