package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/memstore"
	"github.com/idemsk/idemsk/kafka"
)

// silentFor returns a key function that waits for a registry without an answer if a record has the value.
func silentFor(value string) kafka.KeyFunc {
	return func(ctx context.Context, r *kafka.Record) (string, error) {
		if string(r.Value) == value {
			<-ctx.Done()
			return "", idem.Unavailable(fmt.Errorf("the registry: %w", context.Cause(ctx)))
		}
		return kafka.ValueHashKey(ctx, r)
	}
}

// A record whose key can't be computed stops neither the caller nor the records of other partitions, and its
// own partition for a stated time.
func TestStreamPreparesPartitionsBesideEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, kafka.Config{Order: kafka.ByKey, Key: silentFor("silent")})
		began := time.Now()
		s.add("0/x/silent", "0/y/good", "1/z/good2")
		if took := time.Since(began); took > 0 {
			t.Errorf("Add took %v", took)
		}
		<-time.After(1500 * time.Millisecond) // a call takes a second
		if s.mu.Lock(); !slices.Equal(s.done, []string{"payments-1@2 Executed"}) {
			t.Errorf("done after 1.5 s: %v", s.done)
		}
		s.mu.Unlock()
		<-time.After(kafka.PrepareTime)
		if s.mu.Lock(); !slices.Equal(s.done, []string{"payments-1@2 Executed", "payments-0@1 Executed"}) {
			t.Errorf("done after %v: %v", time.Since(began), s.done)
		}
		s.mu.Unlock()
		s.close()
	})
}

// A record of a partition that is revoked before it is prepared is not handled, also if the partition is
// assigned again.
func TestStreamRevokesRecordsThatAreNotPrepared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreaming(t, kafka.Config{Order: kafka.ByKey, Key: silentFor("silent")})
		s.add("0/x/silent")
		s.add("0/y/behind")
		if running := s.stream.Revoke(t.Context(), "payments", 0); len(running) > 0 {
			t.Errorf("%d records run", len(running))
		}
		s.add("0/z/later")
		<-time.After(time.Minute)
		synctest.Wait()
		if !slices.Equal(s.done, []string{"payments-0@2 Executed"}) {
			t.Errorf("done: %v", s.done)
		}
		s.close()
	})
}

// The functions of a batch that wait end before its deadline, and its other records are handled.
func TestBatchIsPreparedBeforeItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := idem.New(memstore.New(memstore.Config{}), idem.Config{Lease: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		handler := kafka.HandlerFunc(func(context.Context, kafka.Record) ([]byte, error) { return nil, nil })
		p, err := kafka.NewProcessor(engine, handler,
			kafka.Config{Namespace: "pay", Key: silentFor("silent")})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		silent := kafka.Record{Topic: "payments", Value: []byte("silent")}
		b := p.Run(ctx, "cluster", [][]kafka.Record{slices.Repeat([]kafka.Record{silent}, 12),
			{{Topic: "payments", Partition: 1, Value: []byte("good")}}})
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the batch took %v", took)
		}
		for i := range b.Partitions[0] {
			if m := &b.Partitions[0][i]; m.Outcome.Kind.Settled() || i == 0 &&
				!errors.Is(m.Outcome.Err, context.DeadlineExceeded) {
				t.Errorf("record %d: %v, %v", i, m.Outcome.Kind, m.Outcome.Err)
			}
		}
		if out := &b.Partitions[1][0].Outcome; out.Kind != idem.Executed {
			t.Errorf("the record of the other partition: %v, %v", out.Kind, out.Err)
		}
	})
}
