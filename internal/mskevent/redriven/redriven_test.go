package redriven_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/internal/mskevent/redriven"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

// letter is that of a payment that was redriven before.
func letter() *kafka.DeadLetter {
	return &kafka.DeadLetter{
		Topic: "payments", Partition: 1, Offset: 7, Timestamp: 1_700_000_000_000,
		TimestampType: "CREATE_TIME", Key: []byte("acc-1"), Value: []byte("p"),
		Headers: []kafka.DeadHeader{{Key: "idempotency-key", Value: []byte("p")},
			{Key: kafka.RedriveHeader, Value: []byte("1")}, {Key: "null"}},
		Token: 1_700_000_000_123, Error: store.Failure{Code: store.CodePermanent},
	}
}

// The event has the letter's record as it was, and the token of this letter.
func TestEvent(t *testing.T) {
	t.Parallel()
	want := kafka.Record{
		Topic: "payments", Partition: 1, Offset: 7, Timestamp: time.UnixMilli(1_700_000_000_000).UTC(),
		TimestampType: "CREATE_TIME",
		Key:           []byte("acc-1"), Value: []byte("p"),
		Headers: []kafka.Header{{Key: "idempotency-key", Value: []byte("p")}, {Key: "null"},
			{Key: kafka.RedriveHeader, Value: []byte("1700000000123 permanent")}},
	}
	l := letter()
	wantEvent(t, l, want)
	l.Token, l.Timestamp, l.Value = 0, 0, nil
	want.Timestamp, want.Value, want.Headers = time.Time{}, nil, want.Headers[:2]
	wantEvent(t, l, want)
}

func wantEvent(t *testing.T, l *kafka.DeadLetter, want kafka.Record) {
	t.Helper()
	event, err := msk.Decode(redriven.Event(l))
	if err != nil {
		t.Fatal(err)
	}
	if got := event.Partitions[0][0]; !event.Outcomes || !reflect.DeepEqual(got, want) {
		t.Errorf("the event has %+v, outcomes %v; want %+v", got, event.Outcomes, want)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	ended := func(outcome string) string {
		return `{"batchItemFailures":[],"idemskOutcomes":[{"partition":"payments-1","offset":7,"outcome":"` +
			outcome + `"}]}`
	}
	for answer, want := range map[string]string{
		ended("Executed"):     "executed",
		ended("FailedOpen"):   "executed, without protection",
		ended("Replayed"):     "had been done already",
		ended("DeadLettered"): "failed again, see its new dead letter",
	} {
		if what, err := redriven.Verdict(letter(), []byte(answer)); err != nil || what != want {
			t.Errorf("%s: %q, %v; want %q", answer, what, err, want)
		}
	}
	for answer, says := range map[string]string{
		ended("ReplayedFailed"):    "found the key FAILED still",
		ended("Skipped"):           `does not name the outcome of the record ("Skipped")`,
		`{"batchItemFailures":[]}`: "does not name the outcome",
		// that of another record
		strings.Replace(ended("Executed"), `"offset":7,`, `"offset":8,`,
			1): "does not name the outcome",
		`{"batchItemFailures":[],"idemskOutcomes":"all"}`:                                  "does not name the outcome",
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-1","offset":7}}]}`: "reported the record as not settled",
		`{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-1","offset":8}}]}`: "not a partial batch response",
		`"hello"`: "not a partial batch response",
		`null`:    "not a partial batch response",
	} {
		if what, err := redriven.Verdict(letter(), []byte(answer)); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %q, %v; want an error that says %q", answer, what, err, says)
		}
	}
}
