package msk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/eventsource"
	"github.com/idemsk/idemsk/lambda/msk"
)

// invoke calls the consumer as Lambda does.
func (s *fixture) invoke(records ...record) (string, error) {
	s.t.Helper()
	out, err := s.start().Invoke(context.Background(), payload(records...))
	return string(out), err
}

func TestResponseIdentifiersAreObjects(t *testing.T) {
	s := newFixture(t)
	s.ledger.fails("a", errBoom)
	got, err := s.invoke(recordAt("payments-2-11@9007199254740993", "a"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "answer", got, `{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-2-11","offset":9007199254740993}}]}`)
}

func TestNoFailuresIsAnEmptyList(t *testing.T) {
	for _, failures := range []eventsource.Failures{eventsource.FailBatch, eventsource.FailPartial} {
		s := newFixture(t)
		s.cfg.Failures = failures
		for _, batch := range [][]record{nil, {recordAt("payments-0@7", "a")}} {
			got, err := s.invoke(batch...)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "answer", got, `{"batchItemFailures":[]}`)
		}
	}
}

// An event that asks for them gets the outcome of each record.
func TestEventAsksForOutcomes(t *testing.T) {
	s := newFixture(t)
	s.ledger.fails("b", idem.Permanent(errBoom))
	s.ledger.fails("c", errBoom)
	for _, first := range []string{"Executed", "Replayed"} {
		event := bytes.Replace(payload(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "b"),
			recordAt("payments-1@9", "c")), []byte("{"), []byte(`{"idemskOutcomes":"all",`), 1)
		got, err := s.start().Invoke(t.Context(), event)
		if err != nil {
			t.Fatal(err)
		}
		second := map[string]string{"Executed": "DeadLettered", "Replayed": "ReplayedFailed"}[first]
		equal(t, "answer", string(got), `{"batchItemFailures":[{"itemIdentifier":{"partition":"payments-1","offset":9}}],"idemskOutcomes":[`+
			`{"partition":"payments-0","offset":7,"outcome":"`+first+
			`"},{"partition":"payments-0","offset":8,"outcome":"`+second+`"},`+
			`{"partition":"payments-1","offset":9,"outcome":"Retry"}]}`)
	}
}

// From the first failure of a partition on, all its records are reported. Other partitions are not affected.
func TestRecordsAfterTheFirstFailureOfAPartitionAreReported(t *testing.T) {
	s := newFixture(t)
	s.cfg.Records.Order = kafka.Unordered // so that what is behind it has been executed
	s.ledger.fails("bad", errBoom)
	s.ledger.fails("bad too", errBoom)
	got, err := s.invoke(
		recordAt("a-0@1", "1"), recordAt("a-0@2", "bad"), recordAt("a-0@3", "2"),
		recordAt("a-0@7", "bad too"),
		recordAt("a-1@1", "3"), recordAt("a-10@1", "4"), recordAt("b-0@5", "bad"), recordAt("b-0@6", "5"),
		recordAt("b-1@1", "6"),
	)
	if err != nil {
		t.Fatal(err)
	}
	var resp msk.Response
	if err := json.Unmarshal([]byte(got), &resp); err != nil {
		t.Fatal(err)
	}
	equalSlices(t, "reported places", places(resp), "a-0@2", "a-0@3", "a-0@7", "b-0@5", "b-0@6")
	equal(t, "executed", s.last().Executed, 6)
	equal(t, "reported", s.last().Reported, 5)
}

func TestFailBatchFailsTheInvocation(t *testing.T) {
	s := newFixture(t)
	s.cfg.Failures = eventsource.FailBatch
	s.ledger.fails("bad", errBoom)
	got, err := s.invoke(recordAt("payments-0@1", "a"), recordAt("payments-0@2", "bad"),
		recordAt("payments-0@3", "b"), recordAt("payments-1@1", "c"))
	equal(t, "answer", got, "")
	var batchErr *eventsource.BatchError
	if !errors.As(err, &batchErr) {
		t.Fatalf("error %v; want a BatchError", err)
	}
	equal(t, "records", batchErr.Records, 4)
	equal(t, "reported", batchErr.Reported, 2)
	var recordErr *eventsource.RecordError
	if !errors.As(err, &recordErr) {
		t.Fatalf("error %v; want a RecordError in it", err)
	}
	equal(t, "the record at fault", recordErr.Source, "payments-0@2")
	wantErr(t, err, errBoom)
	equal(t, "message", err.Error(), "2 of 4 records are to be delivered again; payments-0@2: boom")
	line := s.log.of("batch")[0]
	equal(t, "level of the batch's line", line["level"], any("WARN"))
	equal(t, "error in the batch's line", line["error"], any(err.Error()))
	equal(t, "effects", s.ledger.total(), 2)
}

// A record that is settled is delivered again with one before it that is not.
func TestErrorCountsRecordsThatFollow(t *testing.T) {
	s := newFixture(t)
	s.cfg.Failures, s.cfg.Records.Order = eventsource.FailBatch, kafka.Unordered
	s.ledger.fails("bad", errBoom)
	_, err := s.invoke(recordAt("payments-0@1", "a"), recordAt("payments-0@2", "bad"), recordAt("payments-0@3", "b"))
	wantErr(t, err, errBoom)
	equal(t, "message", err.Error(), "2 of 3 records are to be delivered again (1 because they come after one that "+
		"is not settled); payments-0@2: boom")
}

func TestErrorNamesAtMostFivePartitions(t *testing.T) {
	s := newFixture(t)
	s.cfg.Failures = eventsource.FailBatch
	s.ledger.fails("bad", errBoom)
	var records []record
	for p := range 9 {
		records = append(records, recordAt(fmt.Sprintf("payments-%d@1", p), "bad"))
	}
	_, err := s.invoke(records...)
	wantContains(t, err.Error(), "9 of 9 records", "payments-4@1: boom", "and 4 more")
	equal(t, "it names a sixth", strings.Contains(err.Error(), "payments-5@1"), false)
}

func TestInvokeRefusesOtherEvents(t *testing.T) {
	for _, text := range []string{"", "null", "{", `{"Records":[{"eventSource":"aws:sqs"}]}`,
		`{"records":[]}`} {
		s := newFixture(t)
		_, err := s.start().Invoke(t.Context(), []byte(text))
		wantErr(t, err, msk.ErrNotKafka)
		equal(t, "reported batches", len(s.reports), 0)
	}
}

func TestNewRefusesInvalidConfigurations(t *testing.T) {
	engine, err := idem.New(newFixture(t).store, idem.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handler := msk.HandlerFunc(newLedger().handle)
	_, err = msk.New(engine, handler, eventsource.Config{
		Records:  kafka.Config{Namespace: "a#b", KeyScope: 9, MissingKey: 9, Order: 9, Concurrency: -1},
		Failures: 9,
	})
	wantErr(t, err, idem.ErrInvalidConfig)
	wantContains(t, err.Error(), `Namespace is "a#b"`, "KeyScope is 9", "MissingKey is 9", "Order is 9",
		"Concurrency is -1", "Failures is 9")
	_, err = msk.New(engine, handler, eventsource.Config{})
	wantErr(t, err, idem.ErrInvalidConfig)
	wantContains(t, err.Error(), "Namespace is empty")
	_, err = msk.New(nil, handler, eventsource.Config{})
	wantErr(t, err, idem.ErrInvalidConfig)
	_, err = msk.New(engine, nil, eventsource.Config{})
	wantErr(t, err, idem.ErrInvalidConfig)
}

// The defaults need only a handler and a namespace.
func TestDefaults(t *testing.T) {
	s := newFixture(t)
	log := s.cfg.Records.Logger
	s.cfg = eventsource.Config{Records: kafka.Config{Namespace: "ledger", Logger: log}}
	var records []record
	for n := range 50 {
		records = append(records, recordAt("payments-"+strconv.Itoa(n)+"@1", strconv.Itoa(n)))
	}
	got, err := s.invoke(records...)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "answer", got, `{"batchItemFailures":[]}`)
	equal(t, "effects", s.ledger.total(), 50)
	equal(t, "at most at once", s.ledger.most <= idem.DefaultConcurrency, true)
	s.ledger.fails("bad", errBoom)
	_, err = s.invoke(recordAt("payments-0@2", "bad"))
	wantErr(t, err, errBoom) // FailBatch
}
