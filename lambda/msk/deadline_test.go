package msk_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/idem"
	"github.com/idemsk/idemsk/idem/store"
	"github.com/idemsk/idemsk/kafka"
	"github.com/idemsk/idemsk/lambda/msk"
)

func TestLanesWithoutASlotBeforeTheDeadlineAreNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.cfg.Records.Concurrency = 1
		begun := make(chan struct{})
		var once sync.Once
		wait := func(ctx context.Context, _ msk.Record) error {
			once.Do(func() { close(begun) })
			<-ctx.Done()
			return ctx.Err()
		}
		s.ledger.on["a"], s.ledger.on["b"] = wait, wait
		reported := s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-1@8", "b"),
			recordAt("payments-1@9", "c"))
		<-begun
		equal(t, "reported places", len(reported), 3)
		equal(t, "calls", len(s.ledger.order), 1)
		equal(t, "keys", len(s.keys()), 1)
		equal(t, "retried", s.last().Retried, 1)
		equal(t, "not started", s.last().NotStarted, 2)
		wantOneLine := 0
		for _, line := range s.log.of("record") {
			if line["outcome"] == "NotStarted" {
				wantOneLine++
				wantContains(t, line["error"].(string), "too little time left")
			}
		}
		equal(t, "lines about records that were not started", wantOneLine, 1)
	})
}

// overrun is a handler that ignores the end of its context until the test releases it.
func overrun(s *fixture, key string) (release func()) {
	gate := make(chan struct{})
	s.ledger.on[key] = func(context.Context, msk.Record) error {
		<-gate
		return nil
	}
	return func() { close(gate) }
}

func TestHandlerThatDoesNotReturnIsAnOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, told := newFixture(t), &counts{}
		s.engine.Observer = told
		release := overrun(s, "a")
		begun := time.Now()
		resp, err := s.process(recordAt("payments-0@6", "before"), recordAt("payments-0@7", "a"),
			recordAt("payments-0@8", "behind"), recordAt("payments-1@1", "other"))
		wantErr(t, err, idem.ErrOverrun)
		wantContains(t, err.Error(), "payments-0@7", "the process must end")
		wantContains(t, s.log.of("batch")[0]["error"].(string),
			"payments-0@7: idem: a handler did not return")
		equal(t, "answer", len(resp.BatchItemFailures), 0)
		if took := time.Since(begun); took < timeout-idem.Defaults().DeadlineMargin || took >= timeout {
			t.Errorf("the answer came after %v; want it in the margin before %v", took, timeout)
		}
		r := s.last()
		equal(t, "overruns", r.Overruns, 1)
		equal(t, "not started", r.NotStarted, 1)
		equal(t, "executed", r.Executed, 2)
		equal(t, "to be delivered again", r.Reported, 2)
		checkCounts(t, r)
		checkCounts(t, told.Report)
		equal(t, "overruns that the observer was told", told.Overruns, 1)
		line := s.log.about("payments-0@7")
		equal(t, "outcome", line["outcome"], any("Overrun"))
		equal(t, "alarm", line["alarm"], any(true))
		equal(t, "the line of the one behind", s.log.about("payments-0@8")["outcome"], any("Behind"))

		// The sandbox is thawed, and the handler returns: too late for its key, and for the records after it.
		s.ledger.mu.Lock()
		s.ledger.on["behind"] = func(context.Context, msk.Record) error {
			t.Error("the record behind an overrun was begun")
			return nil
		}
		s.ledger.mu.Unlock()
		release()
		synctest.Wait()
		got := s.get(keyA)
		equal(t, "status", got.Status, store.StatusStarted)
		equal(t, "released", got.Released(), false)
		equal(t, "keys", len(s.keys()), 3)

		s.ledger.on["a"], s.ledger.on["behind"] = nil, nil
		equalSlices(t, "reported places",
			s.deliver(recordAt("payments-0@7", "a"), recordAt("payments-0@8", "behind")))
		equal(t, "attempts", s.get(keyA).Attempts, 2)
	})
}

// A duplicate of an overrun in another partition is not an overrun: it only waited, and ends at the deadline.
func TestDuplicateOfAnOverrunIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		release := overrun(s, "a")
		_, err := s.process(recordAt("payments-0@7", "a"), recordAt("payments-1@1", "a"))
		wantErr(t, err, idem.ErrOverrun)
		equal(t, "overruns", s.last().Overruns, 1)
		equal(t, "not started", s.last().NotStarted, 1)
		release()
		synctest.Wait()
	})
}

// A handler that returns exactly at the deadline may or may not be an overrun, but is counted once.
func TestHandlersThatReturnAtTheDeadlineAreCountedOnce(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			s := newFixture(t)
			var records []record
			for p := range 16 {
				key := strconv.Itoa(p)
				s.ledger.takes(key, timeout-idem.Defaults().DeadlineMargin/8)
				records = append(records, recordAt(place("payments-"+key, 1), key))
				if p%2 == 0 {
					records = append(records, recordAt(place("payments-"+key, 2), "behind "+key))
				}
			}
			if _, err := s.process(records...); err != nil {
				wantErr(t, err, idem.ErrOverrun)
			}
			checkCounts(t, s.last())
			equal(t, "executed", s.last().Executed, 0) // it was too late to complete
			synctest.Wait()
		})
	}
}

func TestErrorNamesAtMostFiveOverruns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		release := overrun(s, "x")
		var records []record
		for n := range 8 {
			key := string(rune('a' + n))
			s.ledger.on[key] = s.ledger.on["x"]
			records = append(records, recordAt("payments-"+string(rune('0'+n))+"@1", key))
		}
		_, err := s.process(records...)
		wantErr(t, err, idem.ErrOverrun)
		wantContains(t, err.Error(), "payments-0@1", "payments-4@1", "and 3 more")
		equal(t, "overruns", s.last().Overruns, 8)
		release()
		synctest.Wait()
	})
}

// A dead-letter sink that does not return is an overrun, too.
func TestDeadLetterThatIsNotSentInTimeIsAnOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.fails("a", idem.Permanent(errBoom))
		gate := make(chan struct{})
		s.letters.on = func(context.Context, kafka.DeadLetter) error {
			<-gate
			return errors.New("too late")
		}
		_, err := s.process(recordAt("payments-0@7", "a"))
		wantErr(t, err, idem.ErrOverrun)
		close(gate)
		synctest.Wait()
		equal(t, "status", s.get(keyA).Status, store.StatusStarted)
	})
}

// Without a deadline, as in a test of a handler, Process waits for all handlers.
func TestProcessWithoutADeadlineWaitsForAllHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.ledger.takes("a", 24*time.Hour)
		resp, err := s.processUnder(context.Background(), batchOf(t, recordAt("payments-0@7", "a")))
		if err != nil || len(resp.BatchItemFailures) > 0 {
			t.Fatal(resp, err)
		}
		equal(t, "executed", s.last().Executed, 1)
	})
}
