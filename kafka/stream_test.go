package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
)

// streaming is a stream whose handler fails for the values that errs names.
type streaming struct {
	*testing.T
	stream *kafka.Stream
	errs   map[string]error
	offset int64        // of the next record that add adds
	log    bytes.Buffer // written and read under mu

	mu     sync.Mutex
	report kafka.Report
	calls  []string // the values for which the handler was called
	done   []string // "<source> <kind>"
	inCall int
}

// Observe implements idem.Observer.
func (s *streaming) Observe(_ context.Context, e idem.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Add(&e)
}

// slowStore is a memory store whose claims take 1 ms.
type slowStore struct{ *memstore.Store }

// Claim implements store.Store.
func (s slowStore) Claim(ctx context.Context, reqs []store.ClaimRequest) []store.ClaimResult {
	<-time.After(time.Millisecond)
	return s.Store.Claim(ctx, reqs)
}

// Write implements io.Writer for the log.
func (s *streaming) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

func newStreaming(t *testing.T, cfg kafka.Config) *streaming {
	t.Helper()
	return newStreamingOf(t, idem.Config{}, cfg)
}

func newStreamingOf(t *testing.T, engineConfig idem.Config, cfg kafka.Config) *streaming {
	t.Helper()
	s := &streaming{T: t, errs: map[string]error{}}
	engineConfig.MaxAttempts, engineConfig.Observer = 2, s
	engine, err := idem.New(slowStore{memstore.New(memstore.Config{BatchSize: 25})}, engineConfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Namespace = "ledger"
	if cfg.Key == nil {
		cfg.Key = kafka.ValueHashKey
	}
	cfg.Logger = slog.New(slog.NewTextHandler(s, nil))
	p, err := kafka.NewProcessor(engine, kafka.HandlerFunc(s.handle), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.stream = p.Stream(t.Context(), "cluster", s.note)
	return s
}

func (s *streaming) handle(_ context.Context, r kafka.Record) ([]byte, error) {
	s.mu.Lock()
	s.calls = append(s.calls, string(r.Value))
	s.inCall++
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inCall--
	return nil, s.errs[string(r.Value)]
}

func (s *streaming) note(m *kafka.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = append(s.done, m.Record.Source()+" "+m.Outcome.Kind.String())
}

// add adds records, each written "<partition>/<Kafka key>/<value>", with consecutive offsets from 0.
func (s *streaming) add(records ...string) {
	for _, text := range records {
		var partition int32
		var key, value string
		if _, err := fmt.Sscanf(strings.ReplaceAll(text, "/", " "), "%d %s %s", &partition, &key,
			&value); err != nil {
			s.Fatal(err)
		}
		s.stream.Add(kafka.Record{Topic: "payments", Partition: partition, Offset: s.offset, Key: []byte(key),
			Value: []byte(value)})
		s.offset++
	}
}

func (s *streaming) close() {
	s.Helper()
	if running := s.stream.Close(context.Background()); len(running) > 0 {
		s.Errorf("%d records have not ended", len(running))
	}
}

// Records of a lane are handled one after another: those of a partition, of a Kafka key, or each by itself.
func TestStreamOrder(t *testing.T) {
	for order, want := range map[kafka.Order]int{kafka.ByPartition: 2, kafka.ByKey: 4, kafka.Unordered: 8} {
		synctest.Test(t, func(t *testing.T) {
			s := newStreaming(t, kafka.Config{Order: order})
			s.add("0/x/a", "0/x/b", "0/y/c", "0/y/d", "1/x/e", "1/x/f")
			for i, value := range []string{"g", "h"} { // with an empty key
				s.stream.Add(kafka.Record{Topic: "payments", Partition: 1, Offset: s.offset + int64(i),
					Key: []byte{}, Value: []byte(value)})
			}
			<-time.After(time.Second / 2)
			s.mu.Lock()
			if s.inCall != want {
				t.Errorf("order %d: %d records are handled at once; want %d", order, s.inCall, want)
			}
			s.mu.Unlock()
			<-time.After(time.Minute)
			synctest.Wait()
			if len(s.done) != 8 {
				t.Errorf("order %d: %v", order, s.done)
			}
			s.close()
		})
	}
}

// Records that can't succeed get a dead letter. Every try that is not a plain execution is logged and
// counted.
func TestStreamLogsAndCountsEachTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead letters
		s := newStreaming(t, kafka.Config{Order: kafka.ByKey, DeadLetters: &dead})
		s.errs["bad"] = errors.New("no such account")
		s.add("0/x/good")
		<-time.After(2 * time.Second) // the third record's key is completed before its turn
		s.add("0/x/bad", "0/x/good", "0/x/last")
		s.stream.Add(kafka.Record{Topic: "payments", Offset: 4}) // HashKey has nothing to hash
		<-time.After(time.Minute)
		synctest.Wait()
		slices.Sort(s.done)
		want := []string{"payments-0@0 Executed", "payments-0@1 DeadLettered", "payments-0@2 Replayed",
			"payments-0@3 Executed", "payments-0@4 DeadLettered"}
		if !slices.Equal(s.done, want) {
			t.Errorf("done: %v", s.done)
		}
		if len(dead.all) != 2 || dead.all[0].Cluster != "cluster" {
			t.Errorf("dead letters: %+v", dead.all)
		}
		r := s.report
		if r.Records != 6 || r.Executed != 2 || r.Replayed != 1 || r.Retried != 1 || r.DeadLettered != 2 ||
			len(r.StoreLatency) == 0 {
			t.Errorf("report: %+v", r)
		}
		for _, line := range []string{"payments-0@1 outcome=Retry", "payments-0@1 outcome=DeadLettered",
			"payments-0@2 outcome=Replayed", "payments-0@4 outcome=DeadLettered"} {
			if strings.Count(s.log.String(), line) != 1 {
				t.Errorf("the log has no %q:\n%s", line, &s.log)
			}
		}
		if n := strings.Count(s.log.String(), "\n"); n != 4 {
			t.Errorf("%d lines:\n%s", n, &s.log)
		}
		s.close()
	})
}

// A record whose key can't be found now, for example because a registry of schemas is down, is tried again
// and gets no dead letter. It uses no attempt, and its lane waits. When the key is found, the record has the
// entry of its key.
func TestStreamTriesToIdentifyARecordAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead letters
		var identified atomic.Int64
		keyOf := func(ctx context.Context, r *kafka.Record) (string, error) {
			if string(r.Value) == "late" && identified.Add(1) < 5 {
				return "", fmt.Errorf("the schema: %w", idem.Unavailable(errors.New("the registry is down")))
			}
			return kafka.ValueHashKey(ctx, r)
		}
		s := newStreaming(t, kafka.Config{Order: kafka.ByKey, Key: keyOf, DeadLetters: &dead})
		s.add("0/x/late", "0/x/behind", "0/y/other")
		<-time.After(time.Minute)
		s.add("1/x/late") // a duplicate
		<-time.After(time.Minute)
		synctest.Wait()
		want := []string{"payments-0@2 Executed", "payments-0@0 Executed", "payments-0@1 Executed",
			"payments-1@3 Replayed"}
		if !slices.Equal(s.done, want) || len(dead.all) > 0 {
			t.Errorf("done: %v; want %v; dead letters: %v", s.done, want, dead.all)
		}
		if r := &s.report; r.Retried != 4 {
			t.Errorf("%d tries failed; want 4", r.Retried)
		}
		s.close()
	})
}

// Without dead letters a record that fails is tried for ever, every four to five minutes in the end, and its
// lane is counted as blocked.
func TestStreamCountsBlockedLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, kafka.Config{Order: kafka.ByKey})
		s.errs["bad"] = idem.Permanent(errors.New("no such account"))
		s.add("0/x/bad", "0/x/behind", "0/y/good")
		<-time.After(time.Hour)
		lanes, blocked := s.stream.Retrying()
		if lanes == 0 { // it is being tried, which takes a second
			<-time.After(2 * time.Second)
			lanes, blocked = s.stream.Retrying()
		}
		if lanes != 1 || blocked != 1 {
			t.Errorf("%d lanes wait, %d are blocked", lanes, blocked)
		}
		s.mu.Lock()
		if n := len(s.calls); n < 12 || n > 24 {
			t.Errorf("%d calls in an hour", n)
		}
		s.errs["bad"] = nil // the operator fixes the cause
		s.mu.Unlock()
		<-time.After(6 * time.Minute)
		synctest.Wait()
		if want := []string{"payments-0@2 Executed", "payments-0@0 Executed",
			"payments-0@1 Executed"}; !slices.Equal(s.done, want) {
			t.Errorf("done: %v", s.done)
		}
		if lanes, blocked = s.stream.Retrying(); lanes+blocked > 0 {
			t.Errorf("%d lanes wait, %d are blocked", lanes, blocked)
		}
		s.close()
	})
}

// Revoke stops the lanes of one partition.
func TestRevokeStopsAPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, kafka.Config{Order: kafka.ByKey})
		s.add("1/x/a", "1/x/b", "1/y/c", "11/x/d", "11/x/e")
		<-time.After(time.Second / 2)
		if running := s.stream.Revoke(t.Context(), "payments", 1); len(running) > 0 {
			t.Errorf("%d records still run", len(running))
		}
		<-time.After(time.Minute)
		synctest.Wait()
		slices.Sort(s.done)
		if want := []string{"payments-11@3 Executed", "payments-11@4 Executed", "payments-1@0 Executed",
			"payments-1@2 Executed"}; !slices.Equal(s.done, want) {
			t.Errorf("done: %v", s.done)
		}
		s.add("1/x/f")
		<-time.After(time.Second / 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if running := s.stream.Revoke(ctx, "payments", 1); len(running) != 1 ||
			running[0].Record.Source() != "payments-1@5" || running[0].State != idem.ItemOverrun {
			t.Errorf("%d records still run", len(running))
		}
		<-time.After(time.Minute)
		if len(s.done) != 4 {
			t.Errorf("done: %v", s.done)
		}
		s.close()
	})
}

// The observer is told the latencies of each record.
func TestStreamTellsAllLatencies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, kafka.Config{Order: kafka.Unordered, Concurrency: 5000})
		for i := range 5000 {
			s.stream.Add(kafka.Record{Topic: "payments", Offset: int64(i), Value: fmt.Append(nil, i)})
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if r := s.report; r.Executed != 5000 || len(r.StoreLatency) < 5000 ||
			slices.Max(r.StoreLatency) != time.Millisecond {
			t.Errorf("%d executed, %d latencies", r.Executed, len(r.StoreLatency))
		}
		s.close()
	})
}
