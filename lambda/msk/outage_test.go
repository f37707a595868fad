package msk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/idemsk/idemsk/kafka"
)

// In an outage of what the handler needs, the answer names all records that did not succeed, the log has a
// line with an alarm for each that was tried, and the report counts all of them.
func TestOutageIsReportedWithAnAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.cfg.Records.Order, s.cfg.Records.Concurrency = kafka.Unordered, 1
		down := true
		s.ledger.book = func(context.Context, kafka.Record) ([]byte, error) {
			if down {
				return nil, errors.New("connection refused")
			}
			return nil, nil
		}
		var records []record
		for i := range 8 {
			records = append(records, recordAt(fmt.Sprintf("payments-0@%d", i), fmt.Sprint("key", i)))
		}
		equal(t, "reported places", len(s.deliver(records...)), 8)
		equal(t, "calls of the handler", len(s.ledger.order), 5)
		r := s.last()
		equal(t, "retried", r.Retried, 5)
		equal(t, "not started", r.NotStarted, 3)
		equal(t, "records for which the handler is down", r.HandlerDown, 4)
		equal(t, "the line of a record whose attempt counted", s.log.about("payments-0@3")["alarm"], nil)
		line := s.log.about("payments-0@4")
		equal(t, "level", line["level"], any("ERROR"))
		equal(t, "alarm", line["alarm"], any(true))
		wantContains(t, line["error"].(string), "the handler fails for all tasks, since 2000-01-01T00:00:00Z",
			"the attempt is not counted", "connection refused")
		waiting := s.log.about("payments-0@7")
		equal(t, "level of one that was not tried", waiting["level"], any("DEBUG"))
		wantContains(t, waiting["error"].(string), "not tried", "connection refused")

		down = false
		<-time.After(2 * time.Second)
		s.deliver(records...)
		equal(t, "records for which the handler is down", s.last().HandlerDown, 0)
		for len(s.deliver(records...)) > 0 {
			<-time.After(time.Second)
		}
		equal(t, "effects", s.ledger.total(), 8)
		equal(t, "dead letters", len(s.letters.sent), 0)
	})
}
